"""The family of hypergradients: from a bilevel problem to dL2/dα."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch

from archgrad.bilevel import Alpha, BilevelProblem, Weights
from archgrad.descent import Descent
from archgrad.hypergradients.point import Point, still
from archgrad.linalg import Vector

__all__ = ["Hypergradient"]


class Hypergradient(ABC):
    """Estimate dL2/dα = ∂L2/∂α + (dw*/dα)ᵀ·∂L2/∂w at the current weights."""

    def __call__(
        self,
        problem: BilevelProblem,
        weights: Weights,
        alpha: Alpha,
        inner_batch: Any,
        outer_batch: Any,
        *,
        descent: Descent | None = None,
    ) -> Alpha:
        """Return the gradient, a dict like ``alpha``.

        Weights, α and the random state are the same bits afterwards, also if a loss raises. ``descent`` says how the
        weights are being trained; a search passes it, and an estimate with a learning rate of its own can do without.
        """
        weights, alpha = _constants(weights), _constants(alpha)
        tensors = [*weights.values(), *alpha.values()]
        with torch.inference_mode(False), torch.enable_grad(), still(problem, tensors) as repeated:
            gradient = self.estimate(Point(repeated, weights, alpha, inner_batch, outer_batch, descent))
        return _constants(gradient)

    @abstractmethod
    def estimate(self, point: Point) -> Alpha:
        """Return the gradient at a point whose variables are constants."""

    @property
    def inner_batches(self) -> int:
        """How many inner batches the estimate reads; a search draws no more."""
        return 1


def _constants(vector: Vector) -> Vector:
    return {name: value.detach() for name, value in vector.items()}
