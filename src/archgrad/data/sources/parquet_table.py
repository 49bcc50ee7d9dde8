"""Find labels, class names and encoded images in parquet files."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from archgrad.data.sources.common import missing_extra
from archgrad.data.sources.decode import Encoded
from archgrad.errors import UserError

__all__ = ["ParquetTable"]

_LABELS = ("label", "labels", "fine_label", "y")
_IMAGES = ("image", "img")
_ROWS_AT_ONCE = 256


class ParquetTable:
    """Parquet files in the layout of the Hugging Face hub, read as one table.

    The images are a struct column with a field ``bytes``, a flattened column such as ``img.bytes``, or plain binary.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        self.files = tuple(files)
        with _opened(self.files[0]) as first:
            schema = first.schema_arrow
        self._label = _label_column(schema, self.files[0])
        self._image = _image_column(schema, self.files[0])
        self.class_names = _class_names(schema.metadata or {}, self._label)

    def labels(self) -> Tensor:
        """Read the labels of all files: int64 [N]."""
        return torch.cat([self._labels_of(file) for file in self.files])

    def encoded(self, chosen: Tensor) -> Iterator[Encoded]:
        """Yield the images with these sorted indices; rows after the last one are not read."""
        wanted = chosen.tolist()[::-1]
        start = 0
        for file in self.files:
            with _opened(file) as parquet:
                for batch in parquet.iter_batches(_ROWS_AT_ONCE, columns=[self._image]):
                    while wanted and wanted[-1] < start + len(batch):
                        row = wanted.pop() - start
                        yield _encoded(batch.column(0)[row].as_py(), f"in row {row + start} of {file.name!r}")
                    start += len(batch)
                    if not wanted:
                        return

    def _labels_of(self, file: Path) -> Tensor:
        with _opened(file) as parquet:
            column = parquet.read(columns=[self._label]).column(0)
        if column.null_count:
            raise UserError(f"{str(file)!r} has {column.null_count} rows without a label; remove or label them.")
        return torch.tensor(column.to_numpy(), dtype=torch.int64)


@contextmanager
def _opened(file: Path) -> Iterator[Any]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise missing_extra("pyarrow", "reading parquet files") from None
    try:
        with pq.ParquetFile(file) as parquet:
            yield parquet
    except UserError:
        raise
    except (pa.ArrowException, OSError, KeyError, IndexError) as problem:
        raise UserError(
            f"{str(file)!r} is truncated, or not a parquet file like the others ({problem}); get the file again."
        ) from problem


def _label_column(schema: Any, file: Path) -> str:
    import pyarrow.types as types

    for name in _LABELS:
        if name in schema.names:
            kind = schema.field(name).type
            if not types.is_integer(kind):
                raise UserError(f"the labels in column {name!r} of {str(file)!r} are {kind}; number them 0, 1, 2, …")
            return name
    raise UserError(
        f"{str(file)!r} has no label column; it has {', '.join(schema.names)}. Name it one of: {', '.join(_LABELS)}"
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
            f"{str(file)!r} has no column of encoded images; it has {', '.join(schema.names)}. "
            f"Give a column 'image' with the bytes of PNG or JPEG files."
        )
    return str(found[0])


def _class_names(metadata: dict[bytes, bytes], label: str) -> tuple[str, ...] | None:
    try:
        names = json.loads(metadata[b"huggingface"])["info"]["features"][label]["names"]
    except (KeyError, TypeError, ValueError):
        return None
    usable = isinstance(names, list) and all(isinstance(name, str) for name in names)
    return tuple(names) if usable else None


def _encoded(cell: dict[str, bytes | None] | bytes | None, name: str) -> Encoded:
    content = cell.get("bytes") if isinstance(cell, dict) else cell
    if content is None:
        raise UserError(f"the image {name} is missing; remove the row.")
    return Encoded(name, partial(io.BytesIO, content))
