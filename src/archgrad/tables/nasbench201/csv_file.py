"""The NAS-Bench-201 table as a CSV file: a header, then one line per cell."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from archgrad.errors import UserError
from archgrad.system.files import open_regular
from archgrad.tables.nasbench201.cells import CELLS, codes_by_name

__all__ = ["SHORT_COLUMNS", "TEST_COLUMNS", "VALIDATION_COLUMNS", "needed_columns", "read_columns"]

TEST_COLUMNS = ("cifar10_test", "cifar100_test", "imagenet16_test")
VALIDATION_COLUMNS = ("cifar10_valid", "cifar100_valid", "imagenet16_valid")
SHORT_COLUMNS = ("cifar10_valid_12ep", "cifar100_valid_12ep", "imagenet16_valid_12ep")
_LARGEST, _MOST_LINES = 100_000_000, 100_000
_FORM = "give a CSV file with the columns arch, cifar10_test, cifar100_test and imagenet16_test"


def read_columns(path: Path) -> dict[str, tuple[float, ...]]:
    """Return the accuracies of all cells by code, for every known column that has no empty field."""
    if path.is_dir():
        raise UserError(f"the table {path} is a folder; {_FORM}.")
    with open_regular(path, "table", _LARGEST) as file, io.TextIOWrapper(file, "utf-8-sig", newline="") as text:
        try:
            return _read(path, csv.reader(text))
        except UnicodeDecodeError:
            raise UserError(f"the table {path} is not UTF-8 text; {_FORM}.") from None


def needed_columns(
    path: Path, found: dict[str, tuple[float, ...]], names: tuple[str, ...]
) -> tuple[tuple[float, ...], ...]:
    """Return the columns of these names; raise a UserError if the table lacks one or some of its values."""
    missing = [name for name in names if name not in found]
    if missing:
        raise UserError(
            f"the table {path} has no complete column {', '.join(missing)}; give a CSV file with arch, "
            f"{', '.join(names)}."
        )
    return tuple(found[name] for name in names)


def _read(path: Path, lines: Iterator[list[str]]) -> dict[str, tuple[float, ...]]:
    rows = _numbered(path, lines)
    _, header = next(rows, (1, []))
    if "arch" not in header:
        raise UserError(f"the table {path}, line 1: the header has no column arch; {_FORM}.")
    names = [name for name in (*TEST_COLUMNS, *VALIDATION_COLUMNS, *SHORT_COLUMNS) if name in header]
    places, codes, number = [header.index(name) for name in names], codes_by_name(), 1
    cells: dict[int, list[float]] = {}
    for number, row in rows:
        if len(row) < len(header):
            _fail(path, number, f"it has {len(row)} columns", f"it needs {len(header)}, as the header says")
        name = row[header.index("arch")]
        if name not in codes:
            _fail(path, number, f"{name[:120]!r} is not a NAS-Bench-201 cell", "write |op~0|+|op~0|op~1|+…")
        if codes[name] in cells:
            _fail(path, number, f"{name!r} appears twice", "keep one line for each cell")
        cells[codes[name]] = [_accuracy(path, number, row[place]) for place in places]
    if len(cells) != CELLS:
        _fail(path, number, f"the table ends after {len(cells)} cells", f"it needs all {CELLS}; fetch it again")
    columns = zip(*(cells[code] for code in range(CELLS)), strict=True)
    return {name: own for name, own in zip(names, columns, strict=True) if not any(map(math.isnan, own))}


def _numbered(path: Path, lines: Iterator[list[str]]) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows that are not empty, with the numbers of their lines."""
    number = 0
    try:
        for number, row in enumerate(lines, start=1):
            if number > _MOST_LINES:
                _fail(path, number, "it is too long", f"the table has {CELLS + 1} lines")
            if row:
                yield number, row
    except csv.Error as error:
        _fail(path, number + 1, f"it is not CSV ({error})", _FORM)


def _accuracy(path: Path, number: int, text: str) -> float:
    """Return the number in a field; NaN if the field is empty."""
    if not text:
        return math.nan
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 100:
        _fail(path, number, f"{text[:40]!r} is not an accuracy", "write a number from 0 to 100")
    return value


def _fail(path: Path, line: int, problem: str, fix: str) -> NoReturn:
    raise UserError(f"the table {path}, line {line}: {problem}; {fix}.")
