"""What the notations share: names, limits and the error for a malformed text."""

from __future__ import annotations

import re
import reprlib
from collections import Counter
from collections.abc import Callable
from typing import Any, NoReturn

from archgrad.errors import UserError

__all__ = ["BLANK", "MOST_NODES", "NAME", "fail", "show", "unique_keys"]

BLANK = " \t\r\n\ufeff"  # some Windows editors put U+FEFF first
MOST_NODES = 10_000
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*\Z")
show = reprlib.repr  # foreign values may be very long or deeply nested


def fail(text: str, position: int, problem: str, fix: str) -> NoReturn:
    """Raise the error for a malformed genotype, with the text around the position."""
    excerpt = text[max(0, position - 12) : position + 24].replace("\n", " ")
    shown = f" near {excerpt!r}" if excerpt else ""
    raise UserError(f"malformed genotype at position {position}{shown}: {problem}; {fix}.")


def unique_keys(what: str) -> Callable[[list[tuple[str, Any]]], dict[str, Any]]:
    """Return a JSON object hook that builds dictionaries and rejects repeated keys."""

    def read(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        content = dict(pairs)
        if len(content) != len(pairs):
            twice, _ = Counter(key for key, _ in pairs).most_common(1)[0]
            raise UserError(f"malformed {what}: the key {show(twice)} appears twice in one object; keep one of them.")
        return content

    return read
