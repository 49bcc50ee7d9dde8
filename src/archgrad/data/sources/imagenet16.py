"""ImageNet16-120, the third data set of NAS-Bench-201: the first 120 classes of ImageNet in 16×16 pixels."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor

from archgrad.data.augment import Augmentation
from archgrad.data.base import Data, LoadOptions
from archgrad.data.dataset import ImageData
from archgrad.data.labels import check_labels
from archgrad.data.sources.base import DataSource
from archgrad.data.sources.cifar import read_pickled
from archgrad.errors import NoTestImagesError, UserError
from archgrad.system.files import existing_path, exists, read_regular, shown_path

__all__ = ["ImageNet16"]

_NAME = "imagenet16-120"
_BATCHES = 10
_FILES = {True: "train_data_batch_1", False: "val_data"}
_SIDE = 16
_KEPT, _ALL = 120, 1000
_CLASSES = tuple(map(str, range(1, _KEPT + 1)))
_MOST_BYTES = 1 << 28
"""A published file has about 100 MB."""


class ImageNet16(DataSource):
    """ImageNet16-120, color, 16×16, 120 classes: a folder with train_data_batch_1 to _10 and val_data.

    The files are those of ImageNet in 16×16 pixels with all its 1,000 classes; as in NAS-Bench-201, the first 120 are
    kept. A class has the number of its label in the files, 1 to 120. The test images are those of ``val_data``.
    """

    takes_path: ClassVar[bool] = True
    in_tables: ClassVar[str | None] = _NAME

    def check(self, path: Path | None) -> None:
        """Reject a folder without the training images."""
        _first_file(path, train=True)

    def read(self, path: Path | None, options: LoadOptions) -> Data:
        """Read one file after the other, and keep the images of the first 120 classes."""
        first = _first_file(path, options.train)
        names = [f"train_data_batch_{number}" for number in range(1, _BATCHES + 1)] if options.train else [first.name]
        parts = [_part(first.with_name(name)) for name in names]
        images, labels = (torch.cat(tensors) for tensors in zip(*parts, strict=True))
        check_labels(_NAME, labels, _CLASSES, every=options.train)
        return options.apply(ImageData(_NAME, images, labels, _CLASSES, Augmentation(crop_padding=2, flip=True)))


def _first_file(path: Path | None, train: bool) -> Path:
    folder, name = existing_path(path or "", "folder"), _FILES[train]
    if not exists(folder / name):
        kind = UserError if train else NoTestImagesError
        raise kind(f"ImageNet16-120 is not in {shown_path(folder)}; give the folder that has {name}.")
    return folder / name


def _part(file: Path) -> tuple[Tensor, Tensor]:
    """Read one file into images uint8 [rows, 3, 16, 16] and classes int64 [rows], 0 to 119."""
    content = read_regular(file, "file of ImageNet16-120", _MOST_BYTES)
    pixels, labels = read_pickled(content, f"the file {shown_path(file)}", "labels", _SIDE, range(1, _ALL + 1))
    kept = labels <= _KEPT
    return torch.from_numpy(pixels[kept.numpy()]).view(-1, 3, _SIDE, _SIDE), labels[kept] - 1
