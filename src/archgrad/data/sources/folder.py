"""A folder with one sub-folder of image files per class."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import torch

from archgrad.data.dataset import ImageData, LoadOptions
from archgrad.data.sources.base import DataSource
from archgrad.data.sources.common import default_augmentation, existing_path
from archgrad.data.sources.decode import Encoded, decode_all
from archgrad.errors import UserError

__all__ = ["Folder"]

_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp")
_PARTS = {True: ("train",), False: ("test", "val", "validation")}


class Folder(DataSource):
    """A folder with one sub-folder of image files per class.

    Classes are the names of the sub-folders, sorted. If there is a sub-folder ``train`` (``test``, ``val``), the
    classes are in it. There is one channel if all images are gray, else three.
    """

    takes_path: ClassVar[bool] = True

    def read(self, path: Path | None, options: LoadOptions) -> ImageData:
        """Decode the chosen images."""
        home = existing_path(path or "", "folder")
        root = _part(home, options.train)
        classes = tuple(sub.name for sub in _subfolders(root))
        files = [_images(root / name) for name in classes]
        _check_classes(root, classes, files)
        sizes = torch.tensor([len(part) for part in files], dtype=torch.long)
        labels = torch.arange(len(classes)).repeat_interleave(sizes)
        paths = [file for part in files for file in part]
        chosen = options.choose(labels)
        images = decode_all(_encoded([paths[index] for index in chosen.tolist()]), options.image_size)
        return ImageData(f"folder:{home.name}", images, labels[chosen], classes, default_augmentation(images))


def _part(root: Path, train: bool) -> Path:
    if not root.is_dir():
        raise UserError(f"{str(root)!r} is a file; give the folder that has one sub-folder per class.")
    # A part has sub-folders; a class called "train", as in CIFAR-100, has none.
    parts = [root / name for name in _PARTS[train] if (root / name).is_dir() and _subfolders(root / name)]
    if parts:
        return parts[0]
    if not train:
        raise UserError(f"{str(root)!r} has no sub-folder {' or '.join(_PARTS[False])}; add one with the test images.")
    return root


def _subfolders(root: Path) -> list[Path]:
    return sorted(sub for sub in root.iterdir() if sub.is_dir() and not sub.name.startswith("."))


def _images(root: Path) -> list[Path]:
    return sorted(file for file in root.iterdir() if file.suffix.lower() in _SUFFIXES and file.is_file())


def _check_classes(root: Path, classes: tuple[str, ...], files: list[list[Path]]) -> None:
    if len(classes) < 2:
        raise UserError(
            f"{str(root)!r} has {len(classes)} sub-folders; give at least 2, one per class, with the images in them."
        )
    for name, part in zip(classes, files, strict=True):
        if not part:
            raise UserError(
                f"the class folder {str(root / name)!r} has no images ({', '.join(_SUFFIXES)}); add some or remove it."
            )


def _encoded(paths: list[Path]) -> Iterator[Encoded]:
    for path in paths:
        try:
            yield Encoded(str(path), path.read_bytes())
        except OSError as problem:
            raise UserError(f"the image {str(path)!r} cannot be read ({problem.strerror}); remove it.") from problem
