"""T1 − T2."""

from __future__ import annotations

from dataclasses import dataclass

from archgrad.autodiff.products import Products
from archgrad.autodiff.tensors import Weights
from archgrad.hypergradients.evaluation_point import EvaluationPoint
from archgrad.hypergradients.implicit import Implicit

__all__ = ["T1T2"]


@dataclass(frozen=True)
class T1T2(Implicit):
    """∂L2/∂α − M·∂L2/∂w: the inverse Hessian is taken for the identity (Luketina et al., 2016; iDARTS, Table 4)."""

    def solve(self, products: Products, b: Weights, point: EvaluationPoint) -> Weights:
        """H⁻¹ ≈ I."""
        return b
