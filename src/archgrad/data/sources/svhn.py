"""SVHN: house numbers in MATLAB files."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from archgrad.data.augment import Augmentation
from archgrad.data.base import Data, described
from archgrad.data.dataset import ImageData, LoadOptions
from archgrad.data.sources.base import DataSource
from archgrad.data.sources.common import check_classes, file_of_part, reason
from archgrad.data.sources.mat_file import read_mat
from archgrad.errors import UserError
from archgrad.system.files import read_regular, shown_path

__all__ = ["Svhn"]

_FILES = {True: "train_32x32.mat", False: "test_32x32.mat"}
_IMAGE = (32, 32, 3)
_CLASSES = tuple(map(str, range(10)))
_NOTHING = np.empty(0)
_MOST_BYTES, _MOST_UNPACKED = 1 << 28, 1 << 29
"""The published files have at most 182 MB, and unpack to 225."""


class Svhn(DataSource):
    """SVHN, house numbers, color, 32×32, 10 classes: a folder with train_32x32.mat and test_32x32.mat.

    The label 10 of the files is the digit 0. Digits are cropped but not mirrored. ``extra_32x32.mat`` is not read.
    """

    takes_path: ClassVar[bool] = True

    def check(self, path: Path | None) -> None:
        """Reject a folder without the training images."""
        file_of_part("SVHN", path, _FILES, train=True)

    def read(self, path: Path | None, options: LoadOptions) -> Data:
        """Read the images [32, 32, 3, N] and labels [N, 1] of one file, and keep the chosen ones."""
        file = file_of_part("SVHN", path, _FILES, options.train)
        pixels, labels = _arrays(file)
        targets = _targets(labels, file)
        if options.train:
            check_classes("svhn", targets, _CLASSES)
        chosen = options.choose(targets)
        images = torch.from_numpy(np.ascontiguousarray(pixels[..., chosen.numpy()].transpose(3, 2, 0, 1)))
        data = ImageData("svhn", images, targets[chosen], _CLASSES, Augmentation(crop_padding=4))
        return data if options.image_size is None else data.resized(options.image_size, options.resize)


def _arrays(file: Path) -> tuple[NDArray[np.uint8], NDArray[Any]]:
    """Return the images uint8 [32, 32, 3, N] and labels [N, 1]."""
    content = read_regular(file, "file of SVHN", _MOST_BYTES)
    try:
        found = read_mat(content, ("X", "y"), _MOST_UNPACKED)
    except (ValueError, zlib.error) as problem:
        raise UserError(
            f"{shown_path(file)} is truncated or is no MATLAB file of SVHN ({reason(problem)}); get it again."
        ) from problem
    pixels, labels = found.get("X", _NOTHING), found.get("y", _NOTHING)
    if pixels.dtype != np.uint8 or pixels.shape[:-1] != _IMAGE or labels.shape != (pixels.shape[-1], 1):
        raise UserError(
            f"{shown_path(file)} has images X of {described(pixels)} and labels y of {described(labels)}, but those of "
            f"SVHN are uint8 [32, 32, 3, N] and [N, 1]; get the file again."
        )
    return pixels, labels


def _targets(labels: NDArray[Any], file: Path) -> Tensor:
    """Return the digits int64 [N] of the labels [N, 1], which are 1 to 10."""
    if not np.isin(labels, range(1, 11)).all():
        raise UserError(f"{shown_path(file)} is mislabeled: the labels of SVHN go from 1 to 10; get the file again.")
    return torch.from_numpy(labels[:, 0].astype(np.int64) % 10)
