"""Images in parquet files, as on the Hugging Face hub."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from archgrad.data.augment import Augmentation
from archgrad.data.dataset import ImageData, check_labels
from archgrad.data.sources.common import choose_images, default_augmentation, existing_path, numbered_classes
from archgrad.data.sources.decode import decode_all
from archgrad.data.sources.parquet_table import ParquetTable
from archgrad.errors import UserError

__all__ = ["parquet"]

_PARTS = {True: ("train",), False: ("test", "val")}

PathLike = str | os.PathLike[str]


def parquet(
    path: PathLike | Sequence[PathLike],
    train: bool = True,
    *,
    limit: int | None = None,
    image_size: int | None = None,
    seed: int = 0,
    classes: Sequence[str] | None = None,
    name: str | None = None,
    augmentation: Augmentation | None = None,
) -> ImageData:
    """Load a parquet file, a list of them, or a folder of them.

    In a folder, files whose names start with ``train`` (or ``test``, ``val``) are used if there are any. Only the
    ``limit`` images that are kept are decoded; the result is the same as with ``limited`` and ``resized`` later.
    """
    files = _files(path, train)
    table = ParquetTable(files)
    title = name or f"parquet:{files[0].name}"
    labels = table.labels()
    names = tuple(classes or table.class_names or numbered_classes(title, labels))
    check_labels(title, labels, names)
    chosen = choose_images(labels, limit, seed)
    images = decode_all(table.encoded(chosen), image_size)
    return ImageData(title, images, labels[chosen], names, augmentation or default_augmentation(images))


def _files(path: PathLike | Sequence[PathLike], train: bool) -> list[Path]:
    if not isinstance(path, str | os.PathLike):
        if not path:
            raise UserError("the list of parquet files is empty; give at least one.")
        return [existing_path(file, "parquet file") for file in path]
    found = existing_path(path, "parquet file or folder")
    return _in_folder(found, train) if found.is_dir() else [found]


def _in_folder(folder: Path, train: bool) -> list[Path]:
    files = sorted(folder.glob("*.parquet")) or sorted(folder.glob("data/*.parquet"))
    for part in _PARTS[train]:
        if matching := [file for file in files if file.name.startswith(part)]:
            return matching
    divided = any(file.name.startswith(part) for file in files for part in _PARTS[True] + _PARTS[False])
    if files and train and not divided:
        return files
    wanted = " or ".join(_PARTS[train])
    found = ", ".join(file.name for file in files) or "no parquet files"
    raise UserError(f"the folder {str(folder)!r} has {found}; give it files that start with {wanted}.")
