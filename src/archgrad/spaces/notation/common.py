"""What the notations share: names, JSON without repeated keys, and the error for a malformed text."""

from __future__ import annotations

import json
import re
import reprlib
from collections import Counter
from typing import Any, NoReturn

from archgrad.errors import UserError

__all__ = ["BLANK", "NAME", "fail", "read_json", "show"]

BLANK = " \t\r\n\ufeff"  # some Windows editors put U+FEFF first
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*\Z")
show = reprlib.repr  # foreign values may be very long or deeply nested


def fail(text: str, position: int, problem: str, fix: str, what: str = "genotype") -> NoReturn:
    """Raise the error for a malformed text, with what is around the position."""
    excerpt = text[max(0, position - 12) : position + 24].replace("\n", " ")
    shown = f" near {excerpt!r}" if excerpt else ""
    raise UserError(f"malformed {what} at position {position}{shown}: {problem}; {fix}.")


def read_json(text: str, start: int = 0, what: str = "genotype") -> dict[str, Any]:
    """Read the JSON object that begins at ``start``; raise a UserError for anything else."""

    def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        content = dict(pairs)
        if len(content) != len(pairs):
            twice, _ = Counter(key for key, _ in pairs).most_common(1)[0]
            raise UserError(f"malformed {what}: the key {show(twice)} appears twice in one object; keep one of them.")
        return content

    try:
        content, end = json.JSONDecoder(object_pairs_hook=unique_keys).raw_decode(text, start)
    except UserError:
        raise
    except json.JSONDecodeError as error:
        fail(text, error.pos, f"it is not valid JSON ({error.msg})", "correct the JSON there", what)
    except (RecursionError, ValueError):  # Python refuses to convert thousands of digits
        fail(text, start, "it is nested too deeply, or a number in it is too long", "write a shorter one", what)
    if text[end:].strip(BLANK):
        fail(text, end, "something follows the JSON", "remove it", what)
    if not isinstance(content, dict):
        fail(text, start, f"it is {show(content)}", "write a JSON object", what)
    return content
