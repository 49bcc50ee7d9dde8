"""Images in parquet files, as on the Hugging Face hub."""

from __future__ import annotations

import io
import json
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from archgrad.data.augment import Augmentation
from archgrad.data.base import Data, LoadOptions
from archgrad.data.labels import check_labels, numbered_classes
from archgrad.data.sources.base import DataSource
from archgrad.data.sources.decode import Encoded
from archgrad.data.sources.encoded import CopiedImages, load_images
from archgrad.errors import NoTestImagesError, UserError, shown_names
from archgrad.system.files import existing_path, list_folder, shown_path
from archgrad.system.parquet import open_parquet

__all__ = ["Parquet"]

_PARTS = {True: ("train",), False: ("test", "val")}
_LABELS = ("label", "labels", "fine_label", "y")
_IMAGES = ("image", "img")
_ROWS_AT_ONCE, _HELD, _HELD_BYTES = 64, 256, 1 << 24


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
        """Decode the chosen images, or copy them to a temporary file for later."""
        found = existing_path(path or "", "parquet file or folder")
        files = _in_folder(found, options.train) if found.is_dir() else [found]
        if files == [found] and not options.train and self.title is None:
            raise NoTestImagesError(f"{shown_path(found)} is one file, which has no test part; give a folder.")
        table = _Table(files)
        title = self.title or f"parquet:{files[0].name}"
        labels = table.labels()
        classes = self.classes or table.class_names or numbered_classes(title, labels)
        check_labels(title, labels, classes, every=options.train)
        chosen = options.choose(labels)
        read, copy = partial(table.encoded, chosen), partial(table.copied, chosen)
        return load_images(title, labels[chosen], classes, options, read, copy, self.augmentation)


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


class _Table:
    """Parquet files in the layout of the Hugging Face hub, read as one table.

    The images are a struct column with a field ``bytes``, a flattened column such as ``img.bytes``, or plain binary.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        self.files = tuple(files)
        with _opened(self.files[0]) as first:
            schema = first.schema_arrow
        self._ends: list[int] = []
        for file in self.files:
            with _opened(file) as parquet:
                self._ends.append(parquet.metadata.num_rows + (self._ends or [0])[-1])
        self._label = _label_column(schema, self.files[0])
        self._image = _image_column(schema, self.files[0])
        self.class_names = _class_names(schema.metadata or {}, self._label)

    def labels(self) -> Tensor:
        """Read the labels of all files: int64 [N]."""
        return torch.cat([self._labels_of(file) for file in self.files])

    def encoded(self, chosen: Tensor) -> Iterator[Encoded]:
        """Yield the images with these sorted indices; rows after the last one are not read."""
        wanted = chosen.tolist()[::-1]
        held: list[Encoded] = []  # to read many and then decode many is a quarter faster than to alternate
        start = size = 0
        for file in self.files:
            with _opened(file) as parquet:
                for batch in parquet.iter_batches(_ROWS_AT_ONCE, columns=[self._image], use_threads=False):
                    while wanted and wanted[-1] < start + len(batch):
                        row = wanted.pop() - start
                        held.append(_encoded(batch.column(0)[row].as_py(), self.name_of(row + start)))
                    start, size = start + len(batch), size + batch.nbytes
                    if len(held) >= _HELD or size > _HELD_BYTES or not wanted:
                        yield from held
                        held, size = [], 0
                    if not wanted:
                        return

    def copied(self, chosen: Tensor) -> CopiedImages:
        """Return the images with these sorted indices, copied to a temporary file."""
        files = [(file.name, file.stat().st_size) for file in self.files]
        fingerprint = repr(files).encode() + chosen.numpy().tobytes()
        return CopiedImages(self.encoded(chosen), fingerprint)

    def name_of(self, row: int) -> str:
        """Return how messages name the image in a row, counted over all files."""
        return f"in row {row} of {shown_path(self.files[bisect_right(self._ends, row)].name)}"

    def _labels_of(self, file: Path) -> Tensor:
        with _opened(file) as parquet:
            column = parquet.read(columns=[self._label]).column(0)
        if column.null_count:
            raise UserError(f"{shown_path(file)} has {column.null_count} rows without a label; remove or label them.")
        return torch.tensor(column.to_numpy(), dtype=torch.int64)


def _opened(file: Path) -> AbstractContextManager[Any]:
    return open_parquet(file, "parquet file", "images", _damaged)


def _damaged(file: Path, problem: str) -> UserError:
    return UserError(
        f"{shown_path(file)} is truncated, or not a parquet file like the others ({problem}); get the file again."
    )


def _label_column(schema: Any, file: Path) -> str:
    import pyarrow.types as types

    for name in _LABELS:
        if name in schema.names:
            kind = schema.field(name).type
            if not types.is_integer(kind):
                raise UserError(
                    f"the labels in column {name!r} of {shown_path(file)} are {kind}; number them 0, 1, 2, …"
                )
            return name
    raise UserError(
        f"{shown_path(file)} has no label column; it has {shown_names(schema.names)}. "
        f"Name it one of: {', '.join(_LABELS)}"
    )


def _image_column(schema: Any, file: Path) -> str:
    """Return the path of the leaf column with the encoded images; prefer the usual names."""
    import pyarrow.types as types

    found = []
    for field in schema:
        if types.is_struct(field.type) and any(child.name == "bytes" for child in field.type):
            found.append(f"{field.name}.bytes")
        elif types.is_binary(field.type) or types.is_large_binary(field.type):
            found.append(field.name)
    found.sort(key=lambda name: name.removesuffix(".bytes") not in _IMAGES)
    if not found:
        raise UserError(
            f"{shown_path(file)} has no column of encoded images; it has {shown_names(schema.names)}. "
            f"Give a column 'image' with the bytes of PNG or JPEG files."
        )
    return str(found[0])


def _class_names(metadata: dict[bytes, bytes], label: str) -> tuple[str, ...] | None:
    try:
        names = json.loads(metadata[b"huggingface"])["info"]["features"][label]["names"]
    except (KeyError, TypeError, ValueError, RecursionError):
        return None
    usable = isinstance(names, list) and all(isinstance(name, str) for name in names)
    return tuple(names) if usable else None


def _encoded(cell: dict[str, bytes | None] | bytes | None, name: str) -> Encoded:
    content = cell.get("bytes") if isinstance(cell, dict) else cell
    if content is None:
        raise UserError(f"the image {name} is missing; remove the row.")
    return Encoded(name, partial(io.BytesIO, content))
