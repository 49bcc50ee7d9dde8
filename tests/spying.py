"""Functions that work as ever, and keep what they are called with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

__all__ = ["spied"]


def spied(patch: pytest.MonkeyPatch, owner: Any, name: str, note: Callable[..., Any]) -> list[Any]:
    """Return a list that grows with every call of a function, by what ``note`` says of its arguments."""
    seen: list[Any] = []
    original = getattr(owner, name)

    def call(*arguments: Any, **named: Any) -> Any:
        seen.append(note(*arguments, **named))
        return original(*arguments, **named)

    patch.setattr(owner, name, call)
    return seen
