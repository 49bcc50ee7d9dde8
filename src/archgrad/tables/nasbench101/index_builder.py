"""Build an index of a NAS-Bench-101 file in one pass, with constant memory."""

from __future__ import annotations

import hashlib
import logging
import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from itertools import groupby, islice
from pathlib import Path
from statistics import fmean

from archgrad.errors import UserError
from archgrad.files import atomic_write
from archgrad.tables.base import Progress
from archgrad.tables.nasbench101.index import APPLICATION, FORMAT, MOST_BUDGETS, TABLES
from archgrad.tables.nasbench101.metrics import Malformed, Run, pack_runs, unpack_runs
from archgrad.tables.nasbench101.rows import Row, module_from, read_rows
from archgrad.tables.nasbench101.tfrecord import damaged_record
from archgrad.warn_once import warn_once

__all__ = ["build_index", "fingerprint_of"]

_OFTEN = 1000
_MOST_RUNS = 100
_PARTS, _PART = 16, 1 << 20
_BEGIN = f"""
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {FORMAT};
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA cache_size = -65536;
BEGIN;
{";".join(TABLES.values())};
"""

_logger = logging.getLogger(__name__)


def build_index(source: Path, target: Path, progress: Progress | None = None) -> None:
    """Read a TFRecord file of NAS-Bench-101 and write its index, which appears only when it is complete.

    The hash of every cell is computed again and compared, so two different cells cannot share a hash. Rows that
    contradict each other are rejected, and so are too many runs of a cell. Repeated runs are kept, with a warning.
    """
    total, fingerprint = source.stat().st_size if source.is_file() else 0, fingerprint_of(source)
    try:
        with atomic_write(target) as file, closing(sqlite3.connect(str(file.name), isolation_level=None)) as index:
            index.executescript(_BEGIN)
            writer = _Writer(source, index)
            for number, (_, rows) in enumerate(groupby(read_rows(source), lambda row: (row.hash, row.epochs))):
                end = writer.add(list(islice(rows, _MOST_RUNS + 1)))
                if progress is not None and number % _OFTEN == 0:
                    progress(end, total)
            writer.finish(fingerprint)
            if progress is not None:
                progress(total, total)
    except (OSError, sqlite3.Error) as error:
        raise UserError(
            f"the index {target} of {source} cannot be written ({error}); make room there, or set ARCHGRAD_CACHE to "
            "another folder."
        ) from error


class _Writer:
    """Writes the runs of one cell after another."""

    def __init__(self, source: Path, index: sqlite3.Connection) -> None:
        self.source, self.index = source, index
        self.cells = self.records = self.repeated = 0

    def add(self, rows: list[Row]) -> int:
        """Add runs of one cell with one number of epochs; return the position in the file after them."""
        cell = self._cell(rows[0])
        first = (rows[0].matrix, rows[0].operations, rows[0].metrics.parameters)
        for row in rows[1:]:
            if (row.matrix, row.operations, row.metrics.parameters) != first:
                self._cell(row)
        key = rows[0].epochs, cell
        found = self.index.execute("SELECT packed FROM runs WHERE epochs = ? AND cell = ?", key).fetchone()
        known = () if found is None else unpack_runs(found[0])
        if len(known) + len(rows) > _MOST_RUNS:
            too_many = rows[_MOST_RUNS - len(known)]
            raise damaged_record(
                self.source,
                too_many.offset,
                f"it is run {_MOST_RUNS + 1} of its cell with {too_many.epochs} epochs, and the benchmark made three",
            )
        runs = [*known, *(Run(row.metrics.midway, row.metrics.end) for row in rows)]
        self.repeated += _repetitions(runs) - _repetitions(known)
        self.index.execute("INSERT OR REPLACE INTO runs VALUES (?, ?, ?)", (*key, pack_runs(runs)))
        means = fmean(run.end.valid for run in runs), fmean(run.end.test for run in runs)
        self.index.execute("INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?)", (*key, *means))
        self.records += len(rows)
        return rows[-1].end

    def finish(self, fingerprint: str) -> None:
        """Write the totals, which mark the index as complete."""
        self.index.execute("INSERT INTO budgets SELECT epochs, count(*) FROM results GROUP BY epochs")
        if (budgets := self.index.execute("SELECT count(*) FROM budgets").fetchone()[0]) > MOST_BUDGETS:
            raise UserError(
                f"the cells of {self.source} have {budgets} different numbers of epochs, and an index holds at most "
                f"{MOST_BUDGETS}; give the benchmark's own file, which has four."
            )
        if self.repeated:
            warn_once(_logger, "%d runs in %s repeat another one and are counted again.", self.repeated, self.source)
        source = os.fsencode(self.source.resolve()).decode(errors="replace")
        facts = {"source": source, "fingerprint": fingerprint, "cells": self.cells, "records": self.records}
        self.index.executemany("INSERT INTO facts VALUES (?, ?)", facts.items())
        self.index.execute("COMMIT")

    def _cell(self, row: Row) -> int:
        """Return the number of the row's cell; check the hash of a new cell and give it a new number."""
        drawn, key = (row.matrix, row.operations), bytes.fromhex(row.hash)
        query = "SELECT id, parameters, matrix, operations FROM cells WHERE hash = ?"
        number, parameters, *known = self.index.execute(query, (key,)).fetchone() or (None, row.metrics.parameters)
        if drawn != tuple(known):
            self._check_hash(row)
        if parameters != row.metrics.parameters:
            raise self._contradiction(row, f"{row.metrics.parameters} trainable parameters", f"{parameters} elsewhere")
        if number is None:
            number = self.cells = self.cells + 1
            self.index.execute("INSERT INTO cells VALUES (?, ?, ?, ?, ?)", (key, number, *drawn, parameters))
        return int(number)

    def _check_hash(self, row: Row) -> None:
        try:
            found = module_from(row.matrix, row.operations).hash
        except (Malformed, UserError) as error:
            raise damaged_record(self.source, row.offset, f"of its cell, {error}") from None
        if found != row.hash:
            raise self._contradiction(row, f"the hash {row.hash}", f"{found} by its matrix and operations")

    def _contradiction(self, row: Row, this: str, other: str) -> UserError:
        return damaged_record(self.source, row.offset, f"its cell has {this} here and {other}")


def _repetitions(runs: Sequence[Run]) -> int:
    return len(runs) - len(set(runs))


def fingerprint_of(source: Path) -> str:
    """Return a hash of the size and the content of a file; of a large one, 16 parts of a megabyte spread over it.

    The published files have up to two gigabytes, which would take seconds to hash whole in every search. A change
    between the parts also changes the time of the file, which is in the name of its index.
    """
    try:
        if not source.is_file():
            return ""
        with source.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            digest = hashlib.sha256(str(size).encode())
            for number in range(_PARTS):
                file.seek(number * max(size - _PART, 0) // (_PARTS - 1) if size > _PARTS * _PART else number * _PART)
                digest.update(file.read(_PART))
    except OSError as error:
        raise UserError(f"{source} cannot be read ({error.strerror}); check the path and its permissions.") from None
    return digest.hexdigest()
