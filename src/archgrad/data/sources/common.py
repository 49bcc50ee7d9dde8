"""Helpers that sources of images share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from archgrad.data.augment import Augmentation
from archgrad.errors import NoTestImagesError, UserError
from archgrad.system.files import existing_path, exists, shown_path

__all__ = [
    "check_classes",
    "default_augmentation",
    "file_of_part",
    "missing_extra",
    "numbered_classes",
    "reason",
    "shown_names",
]


def missing_extra(library: str, need: str) -> UserError:
    """Build the error for an optional library that is not installed."""
    return UserError(f'{need} needs {library}, which is not installed; run: pip install "archgrad[images]"')


def file_of_part(title: str, path: Path | None, files: Mapping[bool, str], train: bool) -> Path:
    """Return the file of the training or test images, whose names ``files`` has, in a folder of the user."""
    folder = existing_path(path or "", "folder")
    if not exists(folder / files[train]):
        kind = UserError if train else NoTestImagesError
        raise kind(f"{title} is not in {shown_path(folder)}; give the folder that has {files[train]}.")
    return folder / files[train]


def reason(problem: Exception) -> str:
    """Return the first line of what a library says of a file, escaped and cut."""
    text = (str(problem).splitlines() or [type(problem).__name__])[0].rstrip(".")
    return repr(text[:120])[1:-1]


def shown_names(names: Iterable[str]) -> str:
    """Return the first names of a list for a message, each escaped and cut."""
    found = list(names)
    shown = ", ".join(repr(name[:40])[1:-1] for name in found[:8])
    return f"{shown}, …" if len(found) > 8 else shown or "nothing"


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


def check_classes(name: str, labels: Tensor, classes: Sequence[str]) -> None:
    """Reject classes that none of the labels [N] belongs to."""
    counts = torch.bincount(labels, minlength=len(classes))
    empty = [one for one, count in zip(classes, counts.tolist(), strict=True) if count == 0]
    if empty:
        raise UserError(
            f"the data {name!r} has no images of {len(empty)} of its {len(classes)} classes ({shown_names(empty)}); "
            f"add images, or number the classes 0, 1, 2, … without gaps (numpy.unique(labels, return_inverse=True)[1])."
        )


def default_augmentation(images: Tensor) -> Augmentation:
    """Return crops for all images [N, C, H, W], and flips for color only: gray images are often writing."""
    return Augmentation(crop_padding=max(1, min(images.shape[2:]) // 8), flip=images.shape[1] == 3)
