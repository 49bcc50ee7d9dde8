"""The base of estimates by the implicit function theorem."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from archgrad.autodiff.products import Products
from archgrad.autodiff.tensors import Alpha, Weights
from archgrad.autodiff.vectors import added
from archgrad.hypergradients.base import HypergradientState, SecondOrder
from archgrad.hypergradients.evaluation_point import EvaluationPoint

__all__ = ["Implicit"]


@dataclass(frozen=True, kw_only=True)
class Implicit(SecondOrder):
    """dL2/dα ≈ ∂L2/∂α − M·x with x ≈ H⁻¹·∂L2/∂w, all at the current weights (iDARTS, Eq. 6; Amended-DARTS, Eq. 5).

    Each member computes its own x. Memory does not grow with the number of products. H is the Hessian of the inner loss
    alone, without the weight decay of a descent.
    """

    def estimate(self, point: EvaluationPoint, state: HypergradientState) -> tuple[Alpha, HypergradientState]:
        """Combine both terms."""
        direct, of_weights = point.outer()
        products = self.products_at(point)
        return added(direct, products.mixed(self.solve(products, of_weights, point)), -1.0), state

    @abstractmethod
    def solve(self, products: Products, b: Weights, point: EvaluationPoint) -> Weights:
        """Return an approximation x of H⁻¹·b."""
