"""First-order DARTS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from archgrad.bilevel import Alpha, BilevelProblem, Weights
from archgrad.hypergradients.base import Hypergradient

__all__ = ["FirstOrder"]


@dataclass(frozen=True)
class FirstOrder(Hypergradient):
    """∂L2/∂α with the weights held fixed: dw*/dα ≈ 0 (DARTS, Section 2.3 with ξ = 0).

    No gradient of the weights is computed.

    >>> problem = BilevelProblem(inner=lambda w, a, x: w["w"] * a["a"], outer=lambda w, a, x: w["w"] * a["a"] ** 2)
    >>> FirstOrder()(problem, {"w": torch.tensor(3.0)}, {"a": torch.tensor(2.0)}, None, None)
    {'a': tensor(12.)}
    """

    needs_inner: ClassVar[bool] = False

    def __call__(
        self, problem: BilevelProblem, weights: Weights, alpha: Alpha, inner_batch: Any, outer_batch: Any
    ) -> Alpha:
        """Differentiate the outer loss with respect to α alone."""
        frozen = {name: weight.detach() for name, weight in weights.items()}
        leaves = {name: value.detach().requires_grad_() for name, value in alpha.items()}
        with torch.enable_grad():
            loss = problem.outer(frozen, leaves, outer_batch)
            gradients = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True, materialize_grads=True)
        return dict(zip(leaves, gradients, strict=True))
