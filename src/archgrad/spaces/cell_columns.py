"""Tables of NAS-Bench-201's cells as CSV files: a header, then a line for each cell."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from archgrad.errors import UserError, reason
from archgrad.spaces.nasbench201_cells import CELLS, codes_by_name
from archgrad.system.files import open_regular

__all__ = ["read_cell_columns"]

_LARGEST = 100_000_000


def read_cell_columns(
    path: Path, what: str, choose: Callable[[Sequence[str]], list[str]], value: tuple[str, float], form: str
) -> dict[str, Tensor]:
    """Return the columns that ``choose`` takes from the header, by code ``[CELLS]``; NaN where there is no number.

    ``value`` is what a number is called, and the largest that it may be. ``form`` says what file is wanted.
    """
    with open_regular(path, what, _LARGEST) as file, io.TextIOWrapper(file, "utf-8-sig", newline="") as text:
        try:
            return _read(path, csv.DictReader(text, restval="missing"), choose, value, form)
        except (UnicodeDecodeError, csv.Error) as problem:
            raise UserError(f"the table {path} is no CSV file in UTF-8 ({reason(problem)}); {form}.") from problem


def _read(
    path: Path,
    rows: csv.DictReader[str],
    choose: Callable[[Sequence[str]], list[str]],
    value: tuple[str, float],
    form: str,
) -> dict[str, Tensor]:
    header = rows.fieldnames or ()
    names = choose(header)
    if "arch" not in header or not names:
        missing = "no column of numbers" if "arch" in header else "no column arch"
        raise UserError(f"the table {path}, line 1: the header has {missing}; {form}.")
    codes, found = codes_by_name(), dict[int, list[float]]()
    for row in rows:
        cell = row["arch"]
        if cell not in codes or codes[cell] in found:
            problem = "appears twice" if cell in codes else "is not a NAS-Bench-201 cell"
            raise UserError(
                f"the table {path}, line {rows.line_num}: {cell[:120]!r} {problem}; write one line for each cell, as "
                f"|op~0|+|op~0|op~1|+…"
            )
        found[codes[cell]] = [_number(f"the table {path}, line {rows.line_num}", row[name], *value) for name in names]
    columns = torch.full((CELLS, len(names)), math.nan, dtype=torch.float64)
    columns[list(found)] = torch.tensor([*found.values()], dtype=torch.float64).reshape(-1, len(names))
    return dict(zip(names, columns.T.contiguous(), strict=True))


def _number(place: str, text: str, what: str, most: float) -> float:
    """Return the number in a field; NaN if the field is empty."""
    if not text:
        return math.nan
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= most or value == math.inf:
        allowed = "a number from 0 up" if most == math.inf else f"a number from 0 to {most:g}"
        raise UserError(f"{place}: {text[:40]!r} is not {what}; write {allowed}.")
    return value
