"""The family of hypergradients: from a bilevel problem to dL2/dα."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from archgrad.bilevel import Alpha, BilevelProblem, Weights

__all__ = ["Hypergradient"]


class Hypergradient(ABC):
    """Estimate dL2/dα = ∂L2/∂α + (dw*/dα)ᵀ·∂L2/∂w at the current weights.

    ``needs_inner`` says whether the estimate reads the inner batch; a search draws none for one that does not.
    """

    needs_inner: ClassVar[bool] = True

    @abstractmethod
    def __call__(
        self, problem: BilevelProblem, weights: Weights, alpha: Alpha, inner_batch: Any, outer_batch: Any
    ) -> Alpha:
        """Return the gradient, a dict like ``alpha``. Neither ``weights`` nor ``alpha`` is changed."""
