"""Reverse mode."""

from __future__ import annotations

from dataclasses import dataclass

from archgrad.errors import check_whole
from archgrad.hypergradients.reverse import Reverse

__all__ = ["ReverseMode"]


@dataclass(frozen=True)
class ReverseMode(Reverse):
    """Backpropagate through ``steps`` inner steps (iDARTS, Eq. 4): exact for their result, with memory O(steps)."""

    steps: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("steps of ReverseMode", self.steps)

    @property
    def lengths(self) -> tuple[int, int]:
        """All steps are kept."""
        return self.steps, self.steps
