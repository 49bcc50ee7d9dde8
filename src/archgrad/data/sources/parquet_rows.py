"""Encoded images of parquet files, in any order."""

from __future__ import annotations

import io
from functools import partial

from torch import Tensor

from archgrad.data.sources.decode import Encoded
from archgrad.data.sources.parquet_table import ParquetTable
from archgrad.data.sources.spool import Spool

__all__ = ["ParquetRows"]


class ParquetRows:
    """The encoded images of the chosen rows, copied once to a temporary file."""

    def __init__(self, table: ParquetTable, chosen: Tensor) -> None:
        self._table, self._chosen = table, chosen
        self._contents = Spool(encoded.open().read() for encoded in table.encoded(chosen))

    def __len__(self) -> int:
        return len(self._chosen)

    def __getitem__(self, index: int) -> Encoded:
        name = self._table.name_of(int(self._chosen[index]))
        return Encoded(name, partial(io.BytesIO, self._contents[index]))

    def fingerprint(self) -> bytes:
        """Return the names and sizes of the files, and the chosen rows."""
        files = [(file.name, file.stat().st_size) for file in self._table.files]
        return repr(files).encode() + self._chosen.numpy().tobytes()
