"""Errors that are sentences: the bad value, the allowed ones, and the fix."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import TypeVar

__all__ = [
    "ArchgradError",
    "BrokenImageError",
    "DiskError",
    "DivergedError",
    "FolderInUseError",
    "ImageSizeError",
    "NoTestImagesError",
    "ProcessLostError",
    "SearchInterrupted",
    "UserError",
    "escaped",
    "look_up",
    "missing_extra",
    "reason",
    "shortened",
    "shown_names",
    "unknown",
]

Entry = TypeVar("Entry")

_LONGEST_VALUE, _LONGEST_NAME = 150, 100
_VALUE = re.compile(rf"(?<!\w)'[^']*'|(?<!\w)\"[^\"]*\"|\S{{{_LONGEST_VALUE},}}")
"""A value in a message: quoted, or one long word."""


class ArchgradError(Exception):
    """Base of every error that archgrad raises on purpose; its message is safe to print, whatever a value holds."""

    def __init__(self, message: object = "") -> None:
        super().__init__(_VALUE.sub(lambda found: _cut(found[0], _LONGEST_VALUE), escaped(str(message))))


class UserError(ArchgradError, ValueError):
    """The caller's mistake: a wrong value, a missing file, parts that do not fit. The command exits with 2."""


class ImageSizeError(UserError):
    """The images have different sizes, or are too large, so that they must be resized."""


class BrokenImageError(UserError):
    """An image file is damaged, or no file that may be read."""


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


def reason(error: BaseException, typed: bool = False) -> str:
    """Return the first line of what an error says, cut for a message; ``typed`` names its type first.

    >>> reason(OSError("no such file")), reason(KeyError("a"), typed=True)
    ('no such file', "KeyError: 'a'")
    """
    said = str(error).strip()
    text = f"{type(error).__name__}: {said}".removesuffix(": ") if typed or not said else said
    return text.splitlines()[0][:120].rstrip(". ")


def shown_names(names: Iterable[str]) -> str:
    """Return the first names of a list for a message, each escaped and cut."""
    found = list(names)
    shown = ", ".join(repr(name[:40])[1:-1] for name in found[:8])
    return f"{shown}, …" if len(found) > 8 else shown or "nothing"


def missing_extra(library: str, need: str, extra: str) -> UserError:
    """Return the error for an optional library that is not installed."""
    return UserError(f'{need} needs {library}, which is not installed; run: pip install "archgrad[{extra}]"')


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
