"""An index of a NAS-Bench-101 file: an SQLite database that finds a cell among 423,624 at once.

Anyone may have made the file, so nothing in it is trusted.
"""

from __future__ import annotations

import os
import sqlite3
import struct
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import quote

from archgrad.errors import UserError
from archgrad.spaces.nasbench101 import Module
from archgrad.tables.base import shown_path
from archgrad.tables.nasbench101.metrics import Malformed, Run, unpack_runs
from archgrad.tables.nasbench101.rows import module_from

__all__ = ["APPLICATION", "FORMAT", "MOST_BUDGETS", "TABLES", "Cell", "DamagedIndex", "Index", "Measure", "open_index"]

Measure = Literal["valid", "test"]

APPLICATION = int.from_bytes(b"ag11", "big")
FORMAT = 2
MOST_BUDGETS = 1000
"""The largest number of different epochs in an index; NAS-Bench-101 has four."""

TABLES = {
    "facts": "CREATE TABLE facts (name TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID",
    "budgets": "CREATE TABLE budgets (epochs INTEGER PRIMARY KEY, cells INTEGER NOT NULL)",
    "cells": (
        "CREATE TABLE cells (hash BLOB PRIMARY KEY, id INTEGER NOT NULL, matrix TEXT NOT NULL, "
        "operations TEXT NOT NULL, parameters INTEGER NOT NULL) WITHOUT ROWID"
    ),
    "results": (
        "CREATE TABLE results (epochs INTEGER, cell INTEGER, valid REAL NOT NULL, test REAL NOT NULL, "
        "PRIMARY KEY (epochs, cell)) WITHOUT ROWID"
    ),
    "runs": (
        "CREATE TABLE runs (epochs INTEGER, cell INTEGER, packed BLOB NOT NULL, PRIMARY KEY (epochs, cell)) "
        "WITHOUT ROWID"
    ),
}
"""The statement of each table, as SQLite stores it up to white space."""

_MAGIC = b"SQLite format 3\0"
_HEADER = struct.Struct(">16xH10xI28xI4xI")
_HEADER_SIZE = 100
_BEST = (
    "SELECT cell FROM results WHERE epochs = :epochs "
    "ORDER BY CASE :measure WHEN 'valid' THEN valid ELSE test END DESC, cell LIMIT 1"
)
_BETTER = (
    "SELECT count(*) FROM results, (SELECT valid AS own_valid, test AS own_test FROM results "
    "WHERE epochs = :epochs AND cell = :cell) "
    "WHERE epochs = :epochs AND CASE :measure WHEN 'valid' THEN valid > own_valid ELSE test > own_test END"
)


class DamagedIndex(UserError):  # noqa: N818 - it says what is the matter
    """The file is not a complete index of this version; ``problem`` says why, the message also says what to do."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(
            f"{path} is not a complete index of NAS-Bench-101: {problem}. "
            f"Give the path of an index, or of a TFRecord file of that benchmark."
        )
        self.problem = problem


class Cell(NamedTuple):
    """The data of a cell that do not depend on its training."""

    number: int
    hash: str
    module: Module
    parameters: int


@dataclass(frozen=True)
class Index:
    """A complete index of the file ``source``; ``trained`` maps numbers of epochs to numbers of cells.

    ``fingerprint`` identifies the content of that file.
    """

    path: Path
    source: str
    fingerprint: str
    cells: int
    records: int
    trained: Mapping[int, int]

    @property
    def epochs(self) -> tuple[int, ...]:
        """The numbers of epochs for which cells were trained, sorted."""
        return tuple(self.trained)

    def cell(self, hash_: str) -> Cell | None:
        """Return the cell with this hash, or None."""
        return self._cell("hash", bytes.fromhex(hash_))

    def runs(self, cell: Cell, epochs: int) -> tuple[Run, ...]:
        """Return the runs of a cell with this many epochs, in the order of the file."""
        with connect(self.path) as index:
            query = "SELECT packed FROM runs WHERE epochs = ? AND cell = ?"
            found = index.execute(query, (epochs, cell.number)).fetchone()
        try:
            return () if found is None else unpack_runs(found[0])
        except Malformed as problem:
            raise DamagedIndex(self.path, str(problem)) from None

    def best(self, measure: Measure, epochs: int) -> Cell:
        """Return the cell with the highest mean accuracy after ``epochs`` epochs; the first in the file wins a tie."""
        with connect(self.path) as index:
            found = index.execute(_BEST, {"epochs": epochs, "measure": measure}).fetchone()
        cell = None if found is None else self._cell("id", found[0])
        if cell is None:
            raise DamagedIndex(self.path, f"it lists cells trained for {epochs} epochs, but has none")
        return cell

    def better(self, cell: Cell, measure: Measure, epochs: int) -> int:
        """Return the number of cells with a higher mean accuracy than this one."""
        asked = {"epochs": epochs, "measure": measure, "cell": cell.number}
        with connect(self.path) as index:
            return int(index.execute(_BETTER, asked).fetchone()[0])

    def _cell(self, key: Literal["hash", "id"], value: object) -> Cell | None:
        query = f"SELECT id, hash, matrix, operations, parameters FROM cells WHERE {key} = ?"  # noqa: S608
        with connect(self.path) as index:
            found = index.execute(query, (value,)).fetchone()
        if found is None:
            return None
        number, hash_, matrix, operations, parameters = found
        if not isinstance(hash_, bytes) or not isinstance(number, int) or not isinstance(parameters, int):
            raise DamagedIndex(self.path, "a cell has an invalid hash, number or size")
        try:
            module = module_from(matrix, operations)
            if module.hash == hash_.hex():
                return Cell(number, module.hash, module, parameters)
        except (Malformed, UserError) as problem:
            raise DamagedIndex(self.path, f"of a cell, {str(problem).rstrip('.')}") from None
        raise DamagedIndex(self.path, f"a cell has another hash than {hash_.hex()}")


def open_index(path: Path) -> Index:
    """Open an index; raise DamagedIndex unless it is complete and of this version."""
    _check_header(path)
    with connect(path) as index:
        _check_tables(path, index)
        facts = dict(index.execute("SELECT name, value FROM facts LIMIT 5"))
        limit = MOST_BUDGETS + 1
        budgets = index.execute("SELECT epochs, cells FROM budgets ORDER BY epochs LIMIT ?", (limit,)).fetchall()
    if set(facts) != {"source", "fingerprint", "cells", "records"}:
        raise DamagedIndex(path, "it was not finished")
    texts, counts = (facts["source"], facts["fingerprint"]), (facts["cells"], facts["records"])
    if not all(isinstance(text, str) for text in texts) or not _are_counts(*counts):
        raise DamagedIndex(path, "its facts are not a path, a fingerprint and two numbers")
    if not 1 <= len(budgets) <= MOST_BUDGETS or not all(_are_counts(*budget) for budget in budgets):
        raise DamagedIndex(path, f"its cells are not trained for 1 to {MOST_BUDGETS} numbers of epochs")
    return Index(path, *texts, *counts, dict(budgets))


@contextmanager
def connect(path: Path) -> Iterator[sqlite3.Connection]:
    """Yield a connection to an index, for reading; any error of SQLite becomes a DamagedIndex."""
    try:
        with closing(sqlite3.connect(f"file:{quote(os.fsencode(path))}?mode=ro", uri=True)) as index:
            index.execute("PRAGMA trusted_schema = OFF")
            yield index
    except sqlite3.Error as error:
        raise DamagedIndex(path, f"SQLite says: {error}") from None


def _check_header(path: Path) -> None:
    try:
        if not path.is_file() and path.exists():
            what = "a folder" if path.is_dir() else "no regular file"
            raise UserError(f"{path} is {what}; give the path of an index or of a TFRecord file.")
        with path.open("rb") as file:
            header = file.read(_HEADER_SIZE)
        size = path.stat().st_size
    except (OSError, ValueError) as error:
        if isinstance(error, UserError):
            raise
        problem = getattr(error, "strerror", None) or error
        raise UserError(f"the index {shown_path(path)} cannot be read ({problem}); check the path.") from None
    if len(header) < _HEADER_SIZE or not header.startswith(_MAGIC):
        raise DamagedIndex(path, "it is not an SQLite database")
    page, pages, version, application = _HEADER.unpack_from(header)
    if application != APPLICATION:
        raise DamagedIndex(path, "it is the database of another program")
    if version != FORMAT:
        raise DamagedIndex(path, f"it has version {version} of the format, not {FORMAT}")
    if size != pages * (65536 if page == 1 else page):
        raise DamagedIndex(path, f"it has {size} bytes, not {pages} pages of {page}")


def _check_tables(path: Path, index: sqlite3.Connection) -> None:
    """Reject a database with anything but the tables of an index: a view or a trigger could run forever."""
    found = index.execute("SELECT type, name, sql FROM sqlite_master LIMIT ?", (len(TABLES) + 1,)).fetchall()
    expected = sorted(("table", name, sql) for name, sql in TABLES.items())
    if sorted((kind, name, " ".join(str(sql).split())) for kind, name, sql in found) != expected:
        raise DamagedIndex(path, "its tables are not those of an index")


def _are_counts(*values: object) -> bool:
    return all(isinstance(value, int) and value > 0 for value in values)
