"""The form of an index: the tables of its SQLite database, and how a file is opened that may come from anyone."""

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
FORMAT = 1
MOST_BUDGETS = 1000
"""Numbers of epochs in an index, at most; NAS-Bench-101 has four."""

TABLES = {
    "facts": "CREATE TABLE facts (name TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID",
    "budgets": "CREATE TABLE budgets (epochs INTEGER PRIMARY KEY, cells INTEGER NOT NULL)",
    "cells": (
        "CREATE TABLE cells ( hash BLOB PRIMARY KEY, id INTEGER NOT NULL, matrix INTEGER NOT NULL, "
        "operations TEXT NOT NULL, parameters INTEGER NOT NULL ) WITHOUT ROWID"
    ),
    "results": (
        "CREATE TABLE results ( epochs INTEGER, cell INTEGER, valid REAL NOT NULL, test REAL NOT NULL, "
        "highest_valid REAL NOT NULL, highest_test REAL NOT NULL, PRIMARY KEY (epochs, cell) ) WITHOUT ROWID"
    ),
    "runs": (
        "CREATE TABLE runs (epochs INTEGER, cell INTEGER, packed BLOB NOT NULL, PRIMARY KEY (epochs, cell)) "
        "WITHOUT ROWID"
    ),
}
"""What makes each table, as SQLite keeps it up to white space."""

_MAGIC = b"SQLite format 3\0"
_HEADER = struct.Struct(">16xH10xI28xI4xI")
_HEADER_SIZE = 100


class DamagedIndex(UserError):  # noqa: N818 - it says what is the matter
    """The file is no complete index of this version; ``problem`` says why, the whole error also what to do."""

    def __init__(self, path: Path, problem: str) -> None:
        fix = (
            "Delete it, and it is made again from the TFRecord file"
            if is_cached(path)  # only what was made here unasked may be deleted without a thought
            else "Give the path of an index, or of a TFRecord file of that benchmark"
        )
        super().__init__(f"{path} is no whole index of NAS-Bench-101: {problem}. {fix}.")
        self.problem = problem


def check_form(path: Path) -> None:
    """Raise DamagedIndex unless the file is a database of this version with the tables of an index and nothing else.

    A view or a trigger could compute without end whatever is asked.
    """
    _check_header(path)
    with connect(path) as index:
        found = index.execute("SELECT type, name, sql FROM sqlite_master LIMIT ?", (len(TABLES) + 1,)).fetchall()
    if sorted((kind, name, _normal(sql)) for kind, name, sql in found) != _EXPECTED:
        raise DamagedIndex(path, "its tables are not those of an index")


@contextmanager
def connect(path: Path, mode: Literal["ro", "rw"] = "ro") -> Iterator[sqlite3.Connection]:
    """Yield a connection to an index; whatever SQLite finds wrong meanwhile is a DamagedIndex."""
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
        raise DamagedIndex(path, "it is no SQLite database")
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
