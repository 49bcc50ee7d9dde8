"""Records as a CSV file."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from archgrad.callbacks.search import Record
from archgrad.callbacks.sinks.base import Sink, Writer
from archgrad.system.files import write_text

__all__ = ["CSVFile"]


@dataclass(frozen=True)
class CSVFile(Sink):
    """Write ``metrics.csv``, with one row for each epoch and one column for each measure."""

    kind: ClassVar[str] = "csv"

    def open(self, folder: Path) -> Writer:
        """Return the writer; it writes the whole file anew at every epoch, because a new measure is a new column."""
        return _Table(folder / "metrics.csv")


@dataclass
class _Table:
    path: Path
    records: list[Record] = field(default_factory=list)

    def write(self, record: Record) -> None:
        self.records.append(record)
        columns = list(dict.fromkeys(name for record in self.records for name in record))
        text = io.StringIO()
        table = csv.DictWriter(text, columns, lineterminator="\n")
        table.writeheader()
        table.writerows(self.records)
        write_text(self.path, text.getvalue())

    def close(self) -> None:
        """Do nothing: every record is written already."""
