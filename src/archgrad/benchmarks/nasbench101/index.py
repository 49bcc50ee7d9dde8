"""An index of a NAS-Bench-101 file: an SQLite database that finds a cell among 423,624 at once."""

from __future__ import annotations

import json
import sqlite3
import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

from archgrad.benchmarks.nasbench101.packing import Run, unpack_module, unpack_runs
from archgrad.errors import UserError
from archgrad.spaces.nasbench101 import Module

__all__ = ["APPLICATION", "FORMAT", "Cell", "DamagedIndex", "Highest", "Index", "Measure", "open_index"]

APPLICATION = int.from_bytes(b"ag11", "big")
FORMAT = 1

Measure = Literal["valid", "test"]

_MAGIC = b"SQLite format 3\0"
_HEADER = struct.Struct(">16xH10xI28xI4xI")
_HEADER_SIZE = 100


class DamagedIndex(UserError):  # noqa: N818 - it says what is the matter
    """The file is no complete index of this version; it can be made again from the file that it is an index of."""


class Cell(NamedTuple):
    """What is known of a cell whatever its training."""

    number: int
    hash: str
    module: Module
    parameters: int


class Highest(NamedTuple):
    """How many of some cells are there, and the highest accuracies of any single run among theirs (shares)."""

    cells: int
    valid: float
    test: float


@dataclass(frozen=True)
class Index:
    """A complete index: where it is, of what, how many cells and records it has, and how many by their epochs."""

    path: Path
    source: str
    cells: int
    records: int
    trained: Mapping[int, int]

    @property
    def epochs(self) -> tuple[int, ...]:
        """For how many epochs cells were trained, rising."""
        return tuple(self.trained)

    def cell(self, hash_: str) -> Cell | None:
        """Return the cell with this hash, if it is there."""
        return self._cell("hash = ?", bytes.fromhex(hash_))

    def runs(self, cell: Cell, epochs: int) -> tuple[Run, ...]:
        """Return the runs of a cell with this many epochs, in the order of the file; none if there are none."""
        with _reading(self.path) as index:
            found = index.execute(
                "SELECT packed FROM runs WHERE epochs = ? AND cell = ?", (epochs, cell.number)
            ).fetchone()
        return () if found is None else unpack_runs(found[0])

    def best(self, measure: Measure, epochs: int) -> Cell | None:
        """Return the cell with the highest mean accuracy; of equal ones, the first of the file."""
        query = f"SELECT cell FROM results WHERE epochs = ? ORDER BY {measure} DESC, cell LIMIT 1"  # noqa: S608
        with _reading(self.path) as index:
            found = index.execute(query, (epochs,)).fetchone()
        return None if found is None else self._cell("id = ?", found[0])

    def better(self, cell: Cell, measure: Measure, epochs: int) -> int:
        """Return how many cells have a higher mean accuracy than this one."""
        query = (
            f"SELECT count(*) FROM results WHERE epochs = :epochs AND {measure} > "  # noqa: S608
            f"(SELECT {measure} FROM results WHERE epochs = :epochs AND cell = :cell)"
        )
        with _reading(self.path) as index:
            return int(index.execute(query, {"epochs": epochs, "cell": cell.number}).fetchone()[0])

    def highest(self, hashes: Iterable[str], epochs: int) -> Highest:
        """Return how many of these cells have results, and the highest accuracies of single runs among them."""
        with _reading(self.path) as index:
            index.execute("CREATE TEMP TABLE wanted (hash BLOB PRIMARY KEY) WITHOUT ROWID")
            rows = ((bytes.fromhex(hash_),) for hash_ in hashes)
            index.executemany("INSERT OR IGNORE INTO wanted VALUES (?)", rows)
            found = index.execute(
                "SELECT count(*), max(highest_valid), max(highest_test) FROM wanted "
                "JOIN cells USING (hash) JOIN results ON cell = id AND epochs = ?",
                (epochs,),
            ).fetchone()
        return Highest(found[0], found[1] or 0.0, found[2] or 0.0)

    def remembered(self, name: str) -> Any:
        """Return what was remembered by this name, or None."""
        with _reading(self.path) as index:
            found = index.execute("SELECT value FROM facts WHERE name = ?", (f"remembered {name}",)).fetchone()
        return None if found is None else json.loads(found[0])

    def remember(self, name: str, value: Any) -> None:
        """Keep a plain value that was computed from the index, where the file may be written."""
        with suppress(sqlite3.OperationalError), closing(sqlite3.connect(self.path)) as index, index:
            index.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (f"remembered {name}", json.dumps(value)))

    def _cell(self, condition: str, value: object) -> Cell | None:
        query = f"SELECT id, hash, matrix, operations, parameters FROM cells WHERE {condition}"  # noqa: S608
        with _reading(self.path) as index:
            found = index.execute(query, (value,)).fetchone()
        if found is None:
            return None
        number, hash_, matrix, operations, parameters = found
        return Cell(number, hash_.hex(), unpack_module(matrix, operations), parameters)


def open_index(path: Path) -> Index:
    """Open an index; raise DamagedIndex for whatever is not a complete one of this version."""
    _check_header(path)
    with _reading(path) as index:
        facts = dict(index.execute("SELECT name, value FROM facts"))
        if not {"source", "cells", "records"} <= set(facts):
            raise _damaged(path, "it was not finished")
        trained = dict(index.execute("SELECT epochs, cells FROM budgets ORDER BY epochs"))
    return Index(path, facts["source"], facts["cells"], facts["records"], trained)


def _check_header(path: Path) -> None:
    try:
        if path.is_dir():
            raise UserError(f"{path} is a folder; give the path of an index or of a TFRecord file.")
        with path.open("rb") as file:
            header = file.read(_HEADER_SIZE)
        size = path.stat().st_size
    except OSError as error:
        raise UserError(f"the index {path} cannot be read ({error.strerror}); check the path.") from None
    if len(header) < _HEADER_SIZE or not header.startswith(_MAGIC):
        raise _damaged(path, "it is no SQLite database")
    page, pages, version, application = _HEADER.unpack_from(header)
    if application != APPLICATION:
        raise _damaged(path, "it is the database of another program")
    if version != FORMAT:
        raise _damaged(path, f"it has version {version} of the format, not {FORMAT}")
    if size != pages * (65536 if page == 1 else page):
        raise _damaged(path, f"it has {size} bytes, not {pages} pages of {page}")


@contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as index:
            yield index
    except sqlite3.Error as error:
        raise _damaged(path, f"SQLite says: {error}") from None


def _damaged(path: Path, problem: str) -> DamagedIndex:
    return DamagedIndex(
        f"{path} is not a whole index of a NAS-Bench-101 file: {problem}. Delete it, and name the TFRecord file."
    )
