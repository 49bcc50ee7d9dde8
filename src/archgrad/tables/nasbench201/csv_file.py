"""The NAS-Bench-201 table as a CSV file: a header, then one line per cell."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path
from typing import NoReturn

from archgrad.errors import UserError, reason
from archgrad.spaces.nasbench201_cells import CELLS, codes_by_name
from archgrad.system.files import open_regular

__all__ = ["SHORT_COLUMNS", "TEST_COLUMNS", "VALIDATION_COLUMNS", "needed_columns", "read_columns"]

TEST_COLUMNS = ("cifar10_test", "cifar100_test", "imagenet16_test")
VALIDATION_COLUMNS = ("cifar10_valid", "cifar100_valid", "imagenet16_valid")
SHORT_COLUMNS = ("cifar10_valid_12ep", "cifar100_valid_12ep", "imagenet16_valid_12ep")
_LARGEST = 100_000_000
_FORM = "give a CSV file with the columns arch, cifar10_test, cifar100_test and imagenet16_test"


def read_columns(path: Path) -> dict[str, tuple[float, ...]]:
    """Return the accuracies of all cells by code, for every known column that has no empty field."""
    with open_regular(path, "table", _LARGEST) as file, io.TextIOWrapper(file, "utf-8-sig", newline="") as text:
        try:
            return _read(path, csv.DictReader(text, restval="missing"))
        except (UnicodeDecodeError, csv.Error) as problem:
            raise UserError(f"the table {path} is no CSV file in UTF-8 ({reason(problem)}); {_FORM}.") from problem


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


def _read(path: Path, rows: csv.DictReader[str]) -> dict[str, tuple[float, ...]]:
    header = rows.fieldnames or ()
    if "arch" not in header:
        raise UserError(f"the table {path}, line 1: the header has no column arch; {_FORM}.")
    names = [name for name in (*TEST_COLUMNS, *VALIDATION_COLUMNS, *SHORT_COLUMNS) if name in header]
    codes, cells = codes_by_name(), dict[int, list[float]]()
    for row in rows:
        name = row["arch"]
        if name not in codes:
            _fail(path, rows, f"{name[:120]!r} is not a NAS-Bench-201 cell", "write |op~0|+|op~0|op~1|+…")
        if codes[name] in cells:
            _fail(path, rows, f"{name!r} appears twice", "keep one line for each cell")
        cells[codes[name]] = [_accuracy(path, rows, row[column]) for column in names]
    if len(cells) != CELLS:
        _fail(path, rows, f"the table ends after {len(cells)} cells", f"it needs all {CELLS}; fetch it again")
    columns = zip(*(cells[code] for code in range(CELLS)), strict=True)
    return {name: own for name, own in zip(names, columns, strict=True) if not any(map(math.isnan, own))}


def _accuracy(path: Path, rows: csv.DictReader[str], text: str) -> float:
    """Return the number in a field; NaN if the field is empty."""
    if not text:
        return math.nan
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 100:
        _fail(path, rows, f"{text[:40]!r} is not an accuracy", "write a number from 0 to 100")
    return value


def _fail(path: Path, rows: csv.DictReader[str], problem: str, fix: str) -> NoReturn:
    raise UserError(f"the table {path}, line {rows.line_num}: {problem}; {fix}.")
