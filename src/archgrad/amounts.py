"""Amounts with units, as people write them: 600M, 1.5k, 5ms."""

from __future__ import annotations

import re

from archgrad.errors import UserError, shortened

__all__ = ["read_amount", "read_seconds"]

_COUNTS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9}
_TIMES = {"": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6}
_NUMBER = re.compile(r"\s*([0-9]{1,15}(?:\.[0-9]{1,15})?)\s*([a-zA-Z]{0,2})\s*")


def read_amount(name: str, text: str) -> int:
    """Read a whole number with a unit.

    >>> read_amount("--fit-madds", "600M")
    600000000
    """
    found = _NUMBER.fullmatch(text)
    factor = _COUNTS.get(found[2].lower()) if found else None
    amount = int(float(found[1]) * factor) if found and factor else 0
    if not amount:
        raise UserError(f"{name} is {shortened(text)}; write a positive number with k, M or G, such as 600M.")
    return amount


def read_seconds(name: str, text: str) -> float:
    """Read a time.

    >>> read_seconds("--max-latency", "5ms")
    0.005
    """
    found = _NUMBER.fullmatch(text)
    factor = _TIMES.get(found[2].lower()) if found else None
    seconds = float(found[1]) * factor if found and factor else 0.0
    if not seconds:
        raise UserError(f"{name} is {shortened(text)}; write a positive time in s, ms or us, such as 5ms.")
    return seconds
