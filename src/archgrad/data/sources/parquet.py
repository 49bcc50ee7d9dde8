"""Images in parquet files, as on the Hugging Face hub."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from archgrad.data.augment import Augmentation
from archgrad.data.base import Data, check_labels
from archgrad.data.dataset import ImageData, LoadOptions
from archgrad.data.sources.base import DataSource
from archgrad.data.sources.common import check_classes, default_augmentation, numbered_classes, shown_names
from archgrad.data.sources.decode import decode_all
from archgrad.data.sources.lazy import fits_in_memory, lazy_images
from archgrad.data.sources.parquet_rows import ParquetRows
from archgrad.data.sources.parquet_table import ParquetTable
from archgrad.errors import NoTestImagesError, UserError
from archgrad.system.files import existing_path, list_folder, shown_path

__all__ = ["Parquet"]

_PARTS = {True: ("train",), False: ("test", "val")}


@dataclass(frozen=True)
class Parquet(DataSource):
    """Parquet files in the layout of the Hugging Face hub: a file or a folder.

    In a folder, files whose names start with ``train`` (or ``test``, ``val``) are used if there are any. ``classes``,
    ``title`` and ``augmentation`` replace those that the files suggest. Images of more than 256 MB are decoded when
    they are needed; until then they are in a temporary file, because parquet files are slow to read in a random order.
    """

    classes: tuple[str, ...] | None = None
    title: str | None = None
    augmentation: Augmentation | None = None
    takes_path: ClassVar[bool] = True

    def read(self, path: Path | None, options: LoadOptions) -> Data:
        """Decode the chosen images, or copy them to a temporary file for later.

        The result is the same as with ``limited`` and ``resized`` afterwards.
        """
        found = existing_path(path or "", "parquet file or folder")
        files = _in_folder(found, options.train) if found.is_dir() else [found]
        if files == [found] and not options.train and self.title is None:
            raise NoTestImagesError(f"{shown_path(found)} is one file, which has no test part; give a folder.")
        table = ParquetTable(files)
        title = self.title or f"parquet:{files[0].name}"
        labels = table.labels()
        classes = self.classes or table.class_names or numbered_classes(title, labels)
        check_labels(title, labels, classes)
        if options.train:
            check_classes(title, labels, classes)
        chosen = options.choose(labels)
        if not fits_in_memory(next(table.encoded(chosen[:1])), len(chosen), options):
            rows = ParquetRows(table, chosen)
            return lazy_images(title, rows, labels[chosen], classes, options, self.augmentation)
        images = decode_all(table.encoded(chosen), len(chosen), options)
        return ImageData(title, images, labels[chosen], classes, self.augmentation or default_augmentation(images))


def _in_folder(folder: Path, train: bool) -> list[Path]:
    folders, entries = list_folder(folder)
    inner = [entry for sub in folders if sub.name == "data" for entry in list_folder(sub)[1]]
    files, others = ([entry for entry in part if entry.suffix == ".parquet"] for part in (entries, inner))
    files = files or others
    for part in _PARTS[train]:
        if matching := [file for file in files if file.name.startswith(part)]:
            return matching
    divided = any(file.name.startswith(part) for file in files for part in _PARTS[True] + _PARTS[False])
    if files and train and not divided:
        return files
    wanted = " or ".join(_PARTS[train])
    found = shown_names(file.name for file in files) if files else "no parquet files"
    kind = UserError if train else NoTestImagesError
    raise kind(f"the folder {shown_path(folder)} has {found}; give it files that start with {wanted}.")
