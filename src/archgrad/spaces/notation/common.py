"""What the notations share: names, limits and the error for a malformed text."""

from __future__ import annotations

import re
import reprlib
from typing import NoReturn

from archgrad.errors import UserError

__all__ = ["BLANK", "MOST_NODES", "NAME", "fail", "show"]

BLANK = " \t\r\n\ufeff"  # editors on Windows put U+FEFF before a text
MOST_NODES = 10_000
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*\Z")
show = reprlib.repr  # a stranger's value may be a megabyte long or nested a thousand times


def fail(text: str, position: int, problem: str, fix: str) -> NoReturn:
    """Raise the error for a malformed genotype, with the text around the position."""
    excerpt = text[max(0, position - 12) : position + 24].replace("\n", " ")
    shown = f" near {excerpt!r}" if excerpt else ""
    raise UserError(f"malformed genotype at position {position}{shown}: {problem}; {fix}.")
