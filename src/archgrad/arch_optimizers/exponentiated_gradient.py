"""Exponentiated gradient, the architecture step of GAEA."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from archgrad.arch_optimizers.base import ArchOptimizer, ArchState
from archgrad.arch_optimizers.mirror_descent import MirrorDescent
from archgrad.autodiff.tensors import Alpha
from archgrad.parts.fields import NonNegative, Positive, checked
from archgrad.relaxations.base import Domain

__all__ = ["ExponentiatedGradient"]


@dataclass(frozen=True)
class ExponentiatedGradient(ArchOptimizer):
    """θ ← θ ⊙ exp(−lr·g), each row divided by its sum: mirror descent with entropy (GAEA, Eq. 8).

    Adding a constant to the gradient of a row changes nothing. After the step, choices are raised to at least ``floor``
    and the row is divided by its sum again, so no choice is lost for good.

    >>> import torch
    >>> optimizer, alpha = ExponentiatedGradient(lr=1.0), {"cell": torch.tensor([[0.5, 0.5]])}
    >>> gradient = {"cell": torch.tensor([[0.0, 2.0]]).log1p()}
    >>> optimizer.step(alpha, gradient, optimizer.init(alpha, steps=1))[0]
    {'cell': tensor([[0.7500, 0.2500]])}
    """

    domain: ClassVar[Domain] = "simplex"

    lr: Positive = 0.1
    floor: NonNegative = 1e-5

    @checked
    def init(self, alpha: Alpha, steps: int) -> ArchState:
        """Record the real choices: those above 0."""
        return self._general().init(alpha, steps)

    def step(self, alpha: Alpha, gradient: Alpha, state: ArchState) -> tuple[Alpha, ArchState]:
        """Take one multiplicative step."""
        return self._general().step(alpha, gradient, state)

    def _general(self) -> MirrorDescent:
        return MirrorDescent("entropy", self.lr, self.floor)
