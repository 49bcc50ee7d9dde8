"""Adam on the architecture parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from archgrad.arch_optimizers.base import ArchOptimizer, ArchState, check_step
from archgrad.autodiff.tensors import Alpha
from archgrad.parts.fields import NonNegative, Positive, Probability, checked
from archgrad.relaxations.base import Domain

__all__ = ["Adam"]


@dataclass(frozen=True)
class Adam(ArchOptimizer):
    """Adam with L2 weight decay in the gradient, at the settings of DARTS.

    g ← g + λα;  m ← β₁m + (1−β₁)g;  v ← β₂v + (1−β₂)g²;  α ← α − lr · m̂ / (√v̂ + ε).
    """

    domain: ClassVar[Domain] = "real"

    lr: Positive = 3e-4
    betas: tuple[Probability, Probability] = (0.5, 0.999)
    weight_decay: NonNegative = 1e-3
    eps: Positive = 1e-8

    @checked
    def init(self, alpha: Alpha, steps: int) -> ArchState:
        """Start both moments at zero."""
        return {
            "steps": {name: torch.zeros((), dtype=torch.int64) for name in alpha},
            "mean": {name: torch.zeros_like(value) for name, value in alpha.items()},
            "square": {name: torch.zeros_like(value) for name, value in alpha.items()},
        }

    def step(self, alpha: Alpha, gradient: Alpha, state: ArchState) -> tuple[Alpha, ArchState]:
        """Take one bias-corrected step."""
        check_step(alpha, gradient, state, "steps", "mean", "square")
        first, second = self.betas
        result = Alpha({})
        following: ArchState = {"steps": {}, "mean": {}, "square": {}}
        for name, value in alpha.items():
            slope = gradient[name] + self.weight_decay * value
            count = int(state["steps"][name]) + 1
            mean = torch.lerp(state["mean"][name], slope, 1 - first)
            square = second * state["square"][name] + (1 - second) * slope * slope
            root = (square / (1 - second**count)).sqrt() + self.eps
            result[name] = value - self.lr / (1 - first**count) * mean / root
            following["steps"][name] = torch.tensor(count)
            following["mean"][name], following["square"][name] = mean, square
        return result, following
