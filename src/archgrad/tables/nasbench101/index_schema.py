"""The schema of an index: its SQLite tables, and how to open an untrusted file."""

from __future__ import annotations

import os
import sqlite3
import struct
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from archgrad.errors import UserError
from archgrad.tables.nasbench101.cache_folder import is_cached

__all__ = [
    "APPLICATION",
    "FORMAT",
    "MOST_BUDGETS",
    "TABLES",
    "DamagedIndex",
    "check_form",
    "connect",
]

APPLICATION = int.from_bytes(b"ag11", "big")
FORMAT = 2
MOST_BUDGETS = 1000
"""The largest number of different epochs in an index; NAS-Bench-101 has four."""

TABLES = {
    "facts": "CREATE TABLE facts (name TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID",
    "budgets": "CREATE TABLE budgets (epochs INTEGER PRIMARY KEY, cells INTEGER NOT NULL)",
    "cells": (
        "CREATE TABLE cells ( hash BLOB PRIMARY KEY, id INTEGER NOT NULL, matrix INTEGER NOT NULL, "
        "operations TEXT NOT NULL, parameters INTEGER NOT NULL ) WITHOUT ROWID"
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


class DamagedIndex(UserError):  # noqa: N818 - it says what is the matter
    """The file is not a complete index of this version; ``problem`` says why, the message also says what to do."""

    def __init__(self, path: Path, problem: str) -> None:
        fix = (
            "Delete it, and it is made again from the TFRecord file"
            if is_cached(path)  # only a cached index is safe to delete
            else "Give the path of an index, or of a TFRecord file of that benchmark"
        )
        super().__init__(f"{path} is not a complete index of NAS-Bench-101: {problem}. {fix}.")
        self.problem = problem


def check_form(path: Path) -> None:
    """Raise DamagedIndex unless the file is a database of this version with the tables of an index and nothing else.

    A view or a trigger could run forever.
    """
    _check_header(path)
    with connect(path) as index:
        found = index.execute("SELECT type, name, sql FROM sqlite_master LIMIT ?", (len(TABLES) + 1,)).fetchall()
    if sorted((kind, name, _normal(sql)) for kind, name, sql in found) != _EXPECTED:
        raise DamagedIndex(path, "its tables are not those of an index")


@contextmanager
def connect(path: Path, mode: Literal["ro", "rw"] = "ro") -> Iterator[sqlite3.Connection]:
    """Yield a connection to an index; any error of SQLite becomes a DamagedIndex."""
    try:
        with closing(sqlite3.connect(f"file:{quote(os.fsencode(path))}?mode={mode}", uri=True)) as index:
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
    except OSError as error:
        raise UserError(f"the index {path} cannot be read ({error.strerror}); check the path.") from None
    if len(header) < _HEADER_SIZE or not header.startswith(_MAGIC):
        raise DamagedIndex(path, "it is not an SQLite database")
    page, pages, version, application = _HEADER.unpack_from(header)
    if application != APPLICATION:
        raise DamagedIndex(path, "it is the database of another program")
    if version != FORMAT:
        raise DamagedIndex(path, f"it has version {version} of the format, not {FORMAT}")
    if size != pages * (65536 if page == 1 else page):
        raise DamagedIndex(path, f"it has {size} bytes, not {pages} pages of {page}")


def _normal(sql: object) -> str:
    return " ".join(str(sql).split())


_EXPECTED = sorted(("table", name, sql) for name, sql in TABLES.items())
