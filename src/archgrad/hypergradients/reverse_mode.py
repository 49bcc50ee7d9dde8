"""Reverse mode."""

from __future__ import annotations

from dataclasses import dataclass

from archgrad.hypergradients.base import Iterations
from archgrad.hypergradients.reverse import Reverse

__all__ = ["ReverseMode"]


@dataclass(frozen=True)
class ReverseMode(Reverse):
    """Backpropagate through ``steps`` inner steps (iDARTS, Eq. 4): exact for their result, with memory O(steps)."""

    steps: Iterations = 4

    @property
    def lengths(self) -> tuple[int, int]:
        """All steps are kept."""
        return self.steps, self.steps
