"""Find labels, class names and encoded images in parquet files."""

from __future__ import annotations

import io
import json
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from archgrad.data.sources.common import missing_extra, reason, shown_names
from archgrad.data.sources.decode import Encoded
from archgrad.errors import UserError
from archgrad.system.files import check_regular, shown_path

__all__ = ["ParquetTable"]

_LABELS = ("label", "labels", "fine_label", "y")
_IMAGES = ("image", "img")
_ROWS_AT_ONCE, _BYTES_AT_ONCE, _HELD_BYTES = 256, 1 << 29, 1 << 24
_MOST_ROWS = 1 << 25
_BOMB_BYTES, _BOMB_RATIO = 1 << 26, 100
"""Encoded images hardly shrink: a column that unpacks to so much, and to so many times its size, is refused."""


class ParquetTable:
    """Parquet files in the layout of the Hugging Face hub, read as one table.

    The images are a struct column with a field ``bytes``, a flattened column such as ``img.bytes``, or plain binary.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        self.files = tuple(files)
        with _opened(self.files[0]) as first:
            schema = first.schema_arrow
        self._ends: list[int] = []
        self._check_rows()
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
                rows = self._rows_at_once(parquet.metadata, file)
                for batch in parquet.iter_batches(rows, columns=[self._image], use_threads=False):
                    while wanted and wanted[-1] < start + len(batch):
                        row = wanted.pop() - start
                        held.append(_encoded(batch.column(0)[row].as_py(), self.name_of(row + start)))
                    start, size = start + len(batch), size + batch.nbytes
                    if len(held) >= _ROWS_AT_ONCE or size > _HELD_BYTES or not wanted:
                        yield from held
                        held, size = [], 0
                    if not wanted:
                        return

    def name_of(self, row: int) -> str:
        """Return how messages name the image in a row, counted over all files."""
        return f"in row {row} of {shown_path(self.files[bisect_right(self._ends, row)].name)}"

    def _check_rows(self) -> None:
        for file in self.files:
            with _opened(file) as parquet:
                self._ends.append(parquet.metadata.num_rows + (self._ends or [0])[-1])
        if not 0 <= (rows := self._ends[-1]) <= _MOST_ROWS:
            raise UserError(f"{shown_path(self.files[0])} claims to have {rows} rows; at most {_MOST_ROWS} are read.")

    def _rows_at_once(self, metadata: Any, file: Path) -> int:
        """Return how many rows fit into the memory if each is as large as all; refuse a column that is a bomb."""
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        columns = [group.column(place) for group in groups for place in range(group.num_columns)]
        sizes = [column for column in columns if column.path_in_schema == self._image]
        for column in sizes:
            packed, size = column.total_compressed_size, column.total_uncompressed_size
            if size > _BOMB_BYTES and size > _BOMB_RATIO * packed:
                raise UserError(
                    f"the images of {shown_path(file)} unpack from {packed} to {size} bytes, which encoded images "
                    f"never do; get the file again."
                )
        largest = max((column.total_uncompressed_size for column in sizes), default=0)
        return min(max(_BYTES_AT_ONCE // max(largest, 1), 1), _ROWS_AT_ONCE)

    def _labels_of(self, file: Path) -> Tensor:
        with _opened(file) as parquet:
            column = parquet.read(columns=[self._label]).column(0)
        if column.null_count:
            raise UserError(f"{shown_path(file)} has {column.null_count} rows without a label; remove or label them.")
        return torch.tensor(column.to_numpy(), dtype=torch.int64)


@contextmanager
def _opened(file: Path) -> Iterator[Any]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise missing_extra("pyarrow", "reading parquet files") from None
    check_regular(file, "parquet file")
    try:
        with pq.ParquetFile(file) as parquet:
            yield parquet
    except UserError:
        raise
    except (pa.ArrowException, OSError, KeyError, IndexError, ValueError, OverflowError) as problem:
        raise UserError(
            f"{shown_path(file)} is truncated, or not a parquet file like the others ({reason(problem)}); "
            f"get the file again."
        ) from problem


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
