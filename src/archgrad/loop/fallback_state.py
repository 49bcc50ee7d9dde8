"""Where a search saves the state that it may go back to."""

from __future__ import annotations

import copy
from typing import Any, Protocol

from archgrad.callbacks import Search
from archgrad.errors import UserError

__all__ = ["FallbackInMemory", "FallbackStore"]


class FallbackStore(Protocol):
    """Saves one state to go back to; a run folder does so on disk."""

    def save_fallback(self, search: Search) -> None:
        """Save a state, in place of the one before."""

    def load_fallback(self) -> dict[str, Any]:
        """Return the saved state."""


class FallbackInMemory:
    """Saves the state of a search that has no folder."""

    def __init__(self) -> None:
        self._content: dict[str, Any] = {}

    def save_fallback(self, search: Search) -> None:
        """Copy what a checkpoint would hold."""
        self._content = copy.deepcopy(search.tensors())

    def load_fallback(self) -> dict[str, Any]:
        """Return the saved state; a search goes back only once."""
        if not self._content:
            raise UserError("a callback asks to go back, but none has asked to keep a state before; see keep_state.")
        return self._content
