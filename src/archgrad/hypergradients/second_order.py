"""The base of estimates with second derivatives of the inner loss."""

from __future__ import annotations

from dataclasses import dataclass

from archgrad.autodiff.products import Kinks, ProductKind, Products
from archgrad.autodiff.tensors import Weights
from archgrad.errors import UserError
from archgrad.hypergradients.base import Hypergradient
from archgrad.hypergradients.evaluation_point import EvaluationPoint

__all__ = ["SecondOrder"]


@dataclass(frozen=True, kw_only=True)
class SecondOrder(Hypergradient):
    """An estimate with products of H = ∂²L1/∂w∂w and M = ∂²L1/∂α∂w, exact or by differences of gradients.

    Differences with ``kinks`` "frozen" are of the smooth function that L1 is around w. With "crossed" they are those of
    the papers (DARTS, Section 2.3; iDARTS, Eq. 46 and 47; Amended-DARTS, A.2), which also count units that switch
    between the two ends; their ``products`` are "finite", those of iDARTS "exact-hessian".
    """

    products: ProductKind = "exact"
    kinks: Kinks = "frozen"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kinks == "crossed" and self.products == "exact":
            raise UserError(
                "hypergradient.kinks is 'crossed', but exact products take no differences that could cross them; set "
                "hypergradient.products to finite, forward or exact-hessian, or hypergradient.kinks to frozen."
            )

    @property
    def difference(self) -> ProductKind | None:
        """The kind of its products, unless they are exact or meant to cross the kinks."""
        return None if self.products == "exact" or self.kinks == "crossed" else self.products

    def products_at(self, point: EvaluationPoint, step: int = 0, weights: Weights | None = None) -> Products:
        """Return its products at a point, or at other weights of an inner step."""
        return point.products(self.products, step, weights, self.kinks)
