"""Reads the records of a run; anybody may have written them, so nothing in them is trusted."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated, Any

from archgrad.errors import UserError
from archgrad.parts.fields import Range, check_value
from archgrad.system.files import read_text

__all__ = ["read_records"]

_LONGEST = 100_000_000


def read_records(folder: Path) -> list[dict[str, Any]]:
    """Read the records of a run, one for each finished epoch."""
    path = folder / "metrics.jsonl"
    try:
        lines = read_text(path, "file with the records", _LONGEST).splitlines()
        records = [json.loads(line) for line in lines]
        for number, record in enumerate(records, start=1):
            _check(record, number, len(records))
    except (ValueError, OverflowError, RecursionError) as error:  # UserError is a ValueError
        raise UserError(f"{path} is missing or damaged; `archgrad resume {folder}` writes it again.") from error
    return records


def _check(record: Any, number: int, count: int) -> None:
    """Raise an error unless a record is what a search writes: texts and finite numbers by name."""
    from archgrad.spaces import Genotype

    if not isinstance(record, dict) or type(record.get("epoch")) is not int or record["epoch"] != number:
        raise UserError(f"record {number} has no epoch, or another one.")
    if "genotype" not in record:
        raise UserError(f"record {number} has no genotype.")
    if record["genotype"] is not None:
        Genotype.parse(record["genotype"])
    for name, value in record.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_number and not math.isfinite(value):
            raise UserError(f"{name} is not finite.")
        if not is_number and not (value is None or (isinstance(value, str) and not name.startswith("oracle_"))):
            raise UserError(f"{name} is no number.")
        if name in ("stage", "stopped_to", "switched_from"):
            check_value(name, value, Annotated[int, Range(1, count if name == "stopped_to" else 10**9)])
