"""First-order DARTS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from archgrad.autodiff.tensors import Alpha
from archgrad.hypergradients.base import Hypergradient, HypergradientState
from archgrad.hypergradients.evaluation_point import EvaluationPoint

__all__ = ["FirstOrder"]


@dataclass(frozen=True)
class FirstOrder(Hypergradient):
    """∂L2/∂α with the weights held fixed: dw*/dα ≈ 0 (DARTS, Section 2.3 with ξ = 0).

    No gradient of the weights is computed.

    >>> import torch
    >>> from archgrad.bilevel.problem import BilevelProblem
    >>> problem = BilevelProblem(inner=lambda w, a, x: w["w"] * a["a"], outer=lambda w, a, x: w["w"] * a["a"] ** 2)
    >>> FirstOrder()(problem, {"w": torch.tensor(3.0)}, {"a": torch.tensor(2.0)}, None, None)
    {'a': tensor(12.)}
    """

    order: ClassVar[int] = 1
    inner_batches: ClassVar[int] = 0

    def estimate(self, point: EvaluationPoint, state: HypergradientState) -> tuple[Alpha, HypergradientState]:
        """Return the first term, which is all there is."""
        return self.direct(point), state
