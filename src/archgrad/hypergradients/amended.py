"""Amended-DARTS."""

from __future__ import annotations

from dataclasses import dataclass

from archgrad.autodiff.products import Products
from archgrad.autodiff.tensors import Weights
from archgrad.autodiff.vectors import scaled
from archgrad.hypergradients.evaluation_point import EvaluationPoint
from archgrad.hypergradients.implicit import Implicit
from archgrad.parts.fields import NonNegative

__all__ = ["Amended"]


@dataclass(frozen=True)
class Amended(Implicit):
    """∂L2/∂α − η·M·H·∂L2/∂w (Amended-DARTS, Eq. 6): the amending term has H where the exact gradient has H⁻¹.

    The paper takes central differences across the kinks (A.2), ``products="finite", kinks="crossed"``: H·v of ∇w L1 at
    w ± ε·v with v = ∂L2/∂w, then M·(H·v) of ∇α L1 at w ± ε·H·v. Its last formula prints ∇w L_val; by Eq. 6 it is
    ∇α L_train.
    Eq. 7 concludes that the amending term never points against the exact second term. That holds if MᵀM and H commute,
    but not in general: H⁻¹·MᵀM·H has non-negative eigenvalues, but its quadratic form can be negative. Appendix A.5
    claims it "in most cases" for #α ≪ #w; on random problems it fails there as often as elsewhere.
    """

    eta: NonNegative = 0.1

    def solve(self, products: Products, b: Weights, point: EvaluationPoint) -> Weights:
        """Return x = η·H·b."""
        return scaled(products.hessian(b), self.eta)
