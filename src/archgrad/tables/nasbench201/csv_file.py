"""The NAS-Bench-201 table as a CSV file: a header, then one line per cell."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

from archgrad.errors import UserError
from archgrad.tables.nasbench201.cells import CELLS, codes_by_name
from archgrad.tables.nasbench201.official_files import is_official

__all__ = [
    "CSV_KIND",
    "CSV_LABEL",
    "TEST_COLUMNS",
    "VALIDATION_COLUMNS",
    "VALIDATION_KIND",
    "VALIDATION_LABEL",
    "read_csv",
]

CSV_KIND, CSV_LABEL = "test accuracy after 200 epochs", "test_200ep"
VALIDATION_KIND, VALIDATION_LABEL = "validation accuracy after 200 epochs", "valid_200ep"
TEST_COLUMNS = ("cifar10_test", "cifar100_test", "imagenet16_test")
VALIDATION_COLUMNS = ("cifar10_valid", "cifar100_valid", "imagenet16_valid")
_Columns = tuple[tuple[float, ...], ...]
_LARGEST, _MOST_LINES = 100_000_000, 100_000


def read_csv(
    path: Path, columns: Sequence[str] = TEST_COLUMNS, optional: Sequence[str] = ()
) -> tuple[_Columns, _Columns | None]:
    """Return the accuracies of all cells by code, ``[columns][15625]``, and those of the optional columns.

    The latter are None if the file lacks one of these columns or values. It may have other columns.
    """
    try:
        if (path.is_file() or path.is_dir()) and is_official(path):
            raise UserError(
                f"{path} is an official file or folder and no table; convert the folder NATS-tss-v1_0-3ffb9-simple "
                f"once with: archgrad convert DIR -o accuracy.csv, and give --table accuracy.csv."
            )
        if not path.is_file():
            raise UserError(
                f"the table {path} is not a file; give a CSV file with the columns arch, {', '.join(columns)}."
            )
        if path.stat().st_size > _LARGEST:
            raise UserError(f"the table {path} is larger than {_LARGEST // 10**6} MB; the real one has about 2 MB.")
        with path.open(encoding="utf-8-sig", newline="") as file:
            return _read_rows(path, csv.reader(file), columns, optional)
    except OSError as error:
        raise UserError(f"the table {path} cannot be read ({error.strerror}); check its permissions.") from None
    except UnicodeDecodeError:
        raise UserError(f"the table {path} is not UTF-8 text; give the CSV file, not a packed or binary one.") from None


def _read_rows(
    path: Path, lines: Iterator[list[str]], columns: Sequence[str], optional: Sequence[str]
) -> tuple[_Columns, _Columns | None]:
    rows = _numbered(path, lines)
    name_at, *value_at = _header(path, next(rows, (1, []))[1], ("arch", *columns), optional)
    width = max(name_at, *value_at) + 1
    codes = codes_by_name()
    values: list[tuple[float, ...] | None] = [None] * CELLS
    number = 1
    for number, row in rows:
        if len(row) < width:
            _fail(path, number, f"it has {len(row)} columns", f"it needs {width}, as the header says")
        name = row[name_at]
        code = codes.get(name)
        if code is None:
            _fail(path, number, f"{name[:120]!r} is not a NAS-Bench-201 cell", "write |op~0|+|op~0|op~1|+…")
        if values[code] is not None:
            _fail(path, number, f"{name!r} appears twice", "keep one line for each cell")
        texts = [row[index] for index in value_at]
        values[code] = tuple(_accuracy(path, number, text, place >= len(columns)) for place, text in enumerate(texts))
    complete = [row for row in values if row is not None]
    if len(complete) != CELLS:
        _fail(path, number, f"the table ends after {len(complete)} cells", f"it needs all {CELLS}; fetch it again")
    found = tuple(zip(*complete, strict=True))
    more = found[len(columns) :]
    missing = not more or any(math.isnan(value) for column in more for value in column)
    return found[: len(columns)], None if missing else more


def _numbered(path: Path, lines: Iterator[list[str]]) -> Iterator[tuple[int, list[str]]]:
    number = 0
    try:
        for number, row in enumerate(lines, start=1):
            if number > _MOST_LINES:
                _fail(path, number, "it is too long", f"the table has {CELLS + 1} lines")
            if row:
                yield number, row
    except csv.Error as error:
        _fail(path, number + 1, f"it is not CSV ({error})", "give the CSV file itself")


def _header(path: Path, header: list[str], needed: Sequence[str], optional: Sequence[str]) -> list[int]:
    missing = [name for name in needed if name not in header]
    if missing:
        _fail(path, 1, f"the header lacks {', '.join(missing)}", f"it needs the columns {', '.join(needed)}")
    more = optional if set(optional) <= set(header) else ()
    return [header.index(name) for name in (*needed, *more)]


def _accuracy(path: Path, number: int, text: str, optional: bool) -> float:
    """Return the number in a field; NaN if the field is empty and may be."""
    if optional and not text:
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
