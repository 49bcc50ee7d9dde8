"""Errors that are sentences: the bad value, the allowed ones, and the fix."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Mapping
from typing import TypeVar

__all__ = [
    "LARGEST_COUNT",
    "ArchgradError",
    "DiskError",
    "DivergedError",
    "FolderInUseError",
    "ImageSizeError",
    "NoTestImagesError",
    "ProcessLostError",
    "SearchInterrupted",
    "UserError",
    "check_held_out",
    "check_number",
    "check_one_of",
    "check_probability",
    "check_whole",
    "escaped",
    "look_up",
    "shortened",
    "unknown",
]

Entry = TypeVar("Entry")

_LONGEST_VALUE, _LONGEST_NAME = 150, 100
_VALUE = re.compile(rf"(?<!\w)'[^']*'|(?<!\w)\"[^\"]*\"|\S{{{_LONGEST_VALUE},}}")
"""A value in a message: quoted, or one long word."""
LARGEST_COUNT = 1_000_000
"""The largest number of steps, terms, epochs, cells and the like that a search may be given."""


class ArchgradError(Exception):
    """Base of every error that archgrad raises on purpose; its message is safe to print, whatever a value holds."""

    def __init__(self, message: object = "") -> None:
        super().__init__(_VALUE.sub(lambda found: _cut(found[0], _LONGEST_VALUE), escaped(str(message))))


class UserError(ArchgradError, ValueError):
    """The caller's mistake: a wrong value, a missing file, parts that do not fit. The command exits with 2."""


class ImageSizeError(UserError):
    """The images have different sizes, or are too large, so that they must be resized."""


class FolderInUseError(UserError):
    """Another process is working in the folder."""


class NoTestImagesError(UserError):
    """The data has no part for tests."""


class DivergedError(ArchgradError, ArithmeticError):
    """The loss became NaN or infinite; the last good checkpoint is kept."""


class DiskError(ArchgradError, OSError):
    """The disk is full or fails; the last good checkpoint is kept."""


class ProcessLostError(ArchgradError):
    """Another process of a search has ended; the last good checkpoint is kept."""


class SearchInterrupted(ArchgradError):  # noqa: N818 - it is no error, it is an answer to a signal
    """A signal stopped the search after a step. Its checkpoint is written; ``signal`` is the signal's number."""

    def __init__(self, message: str, signal: int) -> None:
        super().__init__(message)
        self.signal = signal


def unknown(what: str, value: str, allowed: Iterable[str]) -> UserError:
    """Build the error for an unknown name: it suggests the nearest allowed one and lists all.

    >>> print(unknown("space", "dart", ["darts", "nasbench201"]))
    unknown space 'dart'; did you mean 'darts'? Choose from: darts, nasbench201
    """
    names = list(allowed)
    value = _cut(value, _LONGEST_NAME)
    if not names:
        return UserError(f"unknown {what} {value!r}; there is nothing to choose from.")
    near = difflib.get_close_matches(value, names, n=1, cutoff=0.5)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    return UserError(f"unknown {what} {value!r}{hint} Choose from: {', '.join(names)}")


def shortened(value: object, longest: int = 80) -> str:
    """Return a value as Python writes it, cut after so many characters, for a message.

    >>> shortened("abcdef", longest=4)
    "'abc…"
    """
    try:
        text = repr(value)
    except Exception:  # a user's own __repr__, or a whole number of thousands of digits
        text = f"a value of type {type(value).__name__} that cannot be printed"
    return _cut(text, longest)


def escaped(text: str, keep: str = "\n\t") -> str:
    """Return text in which control characters and undecodable bytes are escapes, so that no terminal obeys them.

    >>> len(escaped(chr(27)))
    4
    """
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() or letter in keep else letter.encode("unicode_escape").decode()
        for letter in text
    )


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}…"


def look_up(what: str, name: str, table: Mapping[str, Entry]) -> Entry:
    """Return the entry of this name; raise a UserError if the table lacks it."""
    if name not in table:
        raise unknown(what, name, table)
    return table[name]


def check_one_of(what: str, value: object, allowed: Iterable[str]) -> None:
    """Raise a UserError unless ``value`` is one of the allowed words."""
    words = list(allowed)
    if not isinstance(value, str) or value not in words:
        raise unknown(f"value of {what}:", value if isinstance(value, str) else shortened(value), words)


def check_whole(what: str, value: object, least: int = 1, most: int = LARGEST_COUNT) -> None:
    """Raise a UserError unless ``value`` is a whole number from ``least`` to ``most``."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UserError(f"{what} is {shortened(value)}; it must be at least {least} and a whole number.")
    if value > most:
        raise UserError(f"{what} is {shortened(value)}; it must be at most {most:,}.")


def check_held_out(value: object) -> None:
    """Raise a UserError unless ``value`` is a share from 0 to less than 1."""
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
    if not 0 <= number < 1:
        raise UserError(
            f"held_out is {shortened(value)}; it must be a share of the images from 0 to less than 1, such as 0.1."
        )


def check_number(what: str, value: object, *, positive: bool = False) -> None:
    """Raise a UserError unless ``value`` is a finite number of at least 0, or above 0 if it must be ``positive``."""
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
    if not (number > 0 if positive else number >= 0) or number == math.inf:
        least = "greater than 0" if positive else "of 0 or more"
        raise UserError(f"{what} is {shortened(value)}; it must be a number {least}.")


def check_probability(what: str, value: object) -> None:
    """Raise a UserError unless ``value`` is a dropout probability: at 1, the rescaling 1/(1 − p) has no value."""
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
    if not 0 <= number < 1:
        raise UserError(f"{what} is {shortened(value)}; it must be a number from 0 to less than 1.")
