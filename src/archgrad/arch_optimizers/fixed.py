"""An optimizer that does not move α."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from archgrad.arch_optimizers.base import ArchOptimizer, ArchState
from archgrad.autodiff.tensors import Alpha
from archgrad.relaxations.base import Domain

__all__ = ["Fixed"]


@dataclass(frozen=True)
class Fixed(ArchOptimizer):
    """α ← α: all architectures share weights and stay equally likely (RandomNAS, Li & Talwalkar, 2019).

    ``domain`` is that of the relaxation, whose initial α is kept.
    """

    moves: ClassVar[bool] = False

    domain: Domain = "real"

    def init(self, alpha: Alpha, steps: int) -> ArchState:
        """Return an empty state."""
        return {}

    def step(self, alpha: Alpha, gradient: Alpha, state: ArchState) -> tuple[Alpha, ArchState]:
        """Return α and the state unchanged."""
        return Alpha(dict(alpha)), state
