"""A folder with one sub-folder of image files per class."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import torch

from archgrad.data.dataset import ImageData, check_labels
from archgrad.data.sources.common import choose_images, default_augmentation, existing_path
from archgrad.data.sources.decode import Encoded, decode_all
from archgrad.errors import UserError

__all__ = ["folder"]

_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp")
_PARTS = {True: ("train",), False: ("test", "val", "validation")}


def folder(
    path: str | os.PathLike[str],
    train: bool = True,
    *,
    limit: int | None = None,
    image_size: int | None = None,
    seed: int = 0,
) -> ImageData:
    """Load the images in the class sub-folders of ``path``, or of its ``train`` (``test``, ``val``) sub-folder.

    Classes are the names of the sub-folders, sorted. There is one channel if all images are gray, else three.
    """
    root = _part(existing_path(path, "folder"), train)
    classes = tuple(sub.name for sub in _subfolders(root))
    files = [_images(root / name) for name in classes]
    name = f"folder:{Path(path).name}"
    labels = torch.arange(len(classes)).repeat_interleave(torch.tensor([len(part) for part in files], dtype=torch.long))
    _check_classes(root, classes, files)
    check_labels(name, labels, classes)
    paths = [file for part in files for file in part]
    chosen = choose_images(labels, limit, seed)
    images = decode_all(_encoded([paths[index] for index in chosen.tolist()]), image_size)
    return ImageData(name, images, labels[chosen], classes, default_augmentation(images))


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
