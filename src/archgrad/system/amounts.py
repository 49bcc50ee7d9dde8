"""Amounts with units, as people write them: 600M, 1.5k, 5ms, 30m."""

from __future__ import annotations

import re

from archgrad.errors import UserError, shortened

__all__ = ["counted", "read_amount", "read_duration", "read_seconds"]

_COUNTS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9}
_TIMES = {"": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6}
_DURATIONS = {"": 60.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_NUMBER = re.compile(r"\s*([0-9]{1,15}(?:\.[0-9]{1,15})?)\s*([a-zA-Z]{0,2})\s*")


def counted(amount: float, noun: str, form: str = ",") -> str:
    """Return an amount in words.

    >>> counted(1, "cell"), counted(3000, "image"), counted(1.04, "minute", ".2g")
    ('1 cell', '3,000 images', '1 minute')
    """
    text = format(amount, form)
    return f"{text} {noun}{'' if text == '1' else 's'}"


def read_amount(name: str, text: str) -> int:
    """Read a whole number with a unit.

    >>> read_amount("--max-madds", "600M")
    600000000
    """
    amount = int(_read(text, _COUNTS))
    if not amount:
        raise UserError(f"{name} is {shortened(text)}; write a positive number with k, M or G, such as 600M.")
    return amount


def read_seconds(name: str, text: str) -> float:
    """Read a time.

    >>> read_seconds("--max-latency", "5ms")
    0.005
    """
    seconds = _read(text, _TIMES)
    if not seconds:
        raise UserError(f"{name} is {shortened(text)}; write a positive time in s, ms or us, such as 5ms.")
    return seconds


def read_duration(name: str, text: str) -> float:
    """Read how long something may take, in seconds; a number without a unit is minutes.

    >>> read_duration("--budget", "1.5h"), read_duration("--budget", "30")
    (5400.0, 1800.0)
    """
    seconds = _read(text, _DURATIONS)
    if not seconds:
        raise UserError(f"{name} is {shortened(text)}; write a positive time with s, m, h or d, such as 30m.")
    return seconds


def _read(text: str, units: dict[str, float]) -> float:
    """Return a number times its unit, 0 for anything else."""
    found = _NUMBER.fullmatch(text)
    return float(found[1]) * units.get(found[2].lower(), 0.0) if found else 0.0
