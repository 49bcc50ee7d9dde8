"""The base of estimates by the implicit function theorem."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from archgrad.autodiff.products import ProductKind, Products
from archgrad.autodiff.vectors import added
from archgrad.hypergradients.base import Hypergradient
from archgrad.hypergradients.evaluation_point import EvaluationPoint
from archgrad.tensors import Alpha, Weights

__all__ = ["Implicit"]


@dataclass(frozen=True, kw_only=True)
class Implicit(Hypergradient):
    """dL2/dα ≈ ∂L2/∂α − M·x with x ≈ H⁻¹·∂L2/∂w, all at the current weights (iDARTS, Eq. 6; Amended-DARTS, Eq. 5).

    Each member computes its own x. Memory does not grow with the number of products. H is the Hessian of the inner loss
    alone, without the weight decay of a descent.
    """

    products: ProductKind = "exact"

    def estimate(self, point: EvaluationPoint) -> Alpha:
        """Combine both terms."""
        direct, of_weights = point.outer()
        products = point.products(self.products)
        return added(direct, products.mixed(self.solve(products, of_weights, point)), -1.0)

    @property
    def difference(self) -> ProductKind | None:
        """The kind of its products, unless they are exact."""
        return None if self.products == "exact" else self.products

    @abstractmethod
    def solve(self, products: Products, b: Weights, point: EvaluationPoint) -> Weights:
        """Return an approximation x of H⁻¹·b."""
