"""Helpers that sources of images share."""

from __future__ import annotations

import os
from pathlib import Path

from torch import Tensor

from archgrad.data.augment import Augmentation
from archgrad.errors import UserError

__all__ = ["default_augmentation", "existing_path", "missing_extra", "numbered_classes"]


def missing_extra(library: str, need: str) -> UserError:
    """Build the error for an optional library that is not installed."""
    return UserError(f'{need} needs {library}, which is not installed; run: pip install "archgrad[images]"')


def existing_path(path: str | os.PathLike[str], what: str = "data") -> Path:
    """Return the path if it exists; else raise a UserError."""
    found = Path(path).expanduser()
    if not found.exists():
        raise UserError(f"there is no {what} at {str(found)!r}; check the path.")
    return found


def numbered_classes(name: str, labels: Tensor) -> tuple[str, ...]:
    """Name the classes "0", "1", … up to the highest of the labels [N]."""
    highest = int(labels.max()) if len(labels) else -1
    # Otherwise a stray identifier in the label column would make billions of classes.
    if highest >= max(len(labels), 2):
        raise UserError(
            f"the data {name!r} is mislabeled: it has {len(labels)} images but a label {highest}; "
            f"number the classes 0, 1, 2, …"
        )
    return tuple(map(str, range(highest + 1)))


def default_augmentation(images: Tensor) -> Augmentation:
    """Return crops for all images [N, C, H, W], and flips for color only: gray images are often writing."""
    return Augmentation(crop_padding=max(1, min(images.shape[2:]) // 8), flip=images.shape[1] == 3)
