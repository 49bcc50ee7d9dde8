"""Where the state that a search may go back to is kept."""

from __future__ import annotations

import copy
from typing import Any, Protocol

from archgrad.callbacks import Search
from archgrad.errors import UserError

__all__ = ["KeptInMemory", "KeptState"]


class KeptState(Protocol):
    """Keeps one state; a run folder does so on disk."""

    def keep(self, search: Search) -> None:
        """Keep a state, in the place of the one before."""

    def kept(self) -> dict[str, Any]:
        """Return what the kept state restores from."""


class KeptInMemory:
    """Keeps a state of a search that has no folder."""

    def __init__(self) -> None:
        self._content: dict[str, Any] = {}

    def keep(self, search: Search) -> None:
        """Copy what would be a checkpoint."""
        self._content = copy.deepcopy(search.tensors())

    def kept(self) -> dict[str, Any]:
        """Return it; a search goes back only once."""
        if not self._content:
            raise UserError("a callback asks to go back, but none has asked to keep a state before; see keep_state.")
        return self._content
