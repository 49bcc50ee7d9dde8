"""Optimizers around another one: they change the gradient or the learning rate before it steps."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated

import torch
from torch import Tensor

from archgrad.arch_optimizers.base import ArchOptimizer, ArchState
from archgrad.autodiff.tensors import Alpha
from archgrad.parts.fields import Positive, Range
from archgrad.relaxations.base import Domain

__all__ = ["Annealed", "Clipped"]


@dataclass(frozen=True)
class _Wrapper(ArchOptimizer):
    """Another optimizer's domain, state and learning rate."""

    optimizer: ArchOptimizer

    @property
    def domain(self) -> Domain:
        """The domain of the inner optimizer."""
        return self.optimizer.domain

    def init(self, alpha: Alpha, steps: int) -> ArchState:
        """Return the state of the inner optimizer."""
        return self.optimizer.init(alpha, steps)

    def scaled(self, factor: float) -> ArchOptimizer:
        """Scale the inner optimizer."""
        return replace(self, optimizer=self.optimizer.scaled(factor))

    def drift_factor(self, ratio: float) -> float:
        """Return the factor of the inner optimizer."""
        return self.optimizer.drift_factor(ratio)


@dataclass(frozen=True)
class Clipped(_Wrapper):
    """Clip the gradient of each block to ``norm``: g ← g · min(1, norm / ‖g‖)."""

    norm: Positive = 1.0

    def step(self, alpha: Alpha, gradient: Alpha, state: ArchState) -> tuple[Alpha, ArchState]:
        """Take a step with the clipped gradient."""
        return self.optimizer.step(alpha, Alpha({name: self._clip(value) for name, value in gradient.items()}), state)

    def _clip(self, gradient: Tensor) -> Tensor:
        size = gradient.norm().clamp(min=torch.finfo(gradient.dtype).tiny)
        factor: Tensor = (self.norm / size).clamp(max=1.0)
        return gradient * factor


@dataclass(frozen=True)
class Annealed(_Wrapper):
    """Anneal the learning rate by a cosine to the share ``last``: lr_t = lr · (last + (1 − last)(1 + cos πt/T)/2)."""

    last: Annotated[float, Range(0, 1)] = 0.0

    def init(self, alpha: Alpha, steps: int) -> ArchState:
        """Add the number of steps done and planned to the inner state."""
        counts = {"done": torch.tensor(0), "planned": torch.tensor(steps)}
        return {"annealing": counts, **self.optimizer.init(alpha, steps)}

    def step(self, alpha: Alpha, gradient: Alpha, state: ArchState) -> tuple[Alpha, ArchState]:
        """Take a step with the present rate."""
        counts = state["annealing"]
        share = min(int(counts["done"]) / max(int(counts["planned"]), 1), 1.0)
        factor = self.last + (1 - self.last) * (1 + math.cos(math.pi * share)) / 2
        own = {quantity: values for quantity, values in state.items() if quantity != "annealing"}
        if factor > 0:
            alpha, own = self.optimizer.scaled(factor).step(alpha, gradient, own)
        return alpha, {"annealing": {**counts, "done": counts["done"] + 1}, **own}
