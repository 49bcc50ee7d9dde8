"""Estimates by the implicit function theorem; the Neumann series of iDARTS has its own file."""

from __future__ import annotations

import logging
from abc import abstractmethod
from dataclasses import dataclass

import torch

from archgrad.autodiff.krylov import conjugate_gradient, dense
from archgrad.autodiff.products import Products
from archgrad.autodiff.tensors import Alpha, Weights
from archgrad.autodiff.vectors import added, flattened, scaled, unflattened
from archgrad.errors import UserError
from archgrad.hypergradients.base import HypergradientState, Iterations, SecondOrder
from archgrad.hypergradients.evaluation_point import EvaluationPoint
from archgrad.parts.fields import NonNegative
from archgrad.system.warn_once import warn_once

__all__ = ["T1T2", "Amended", "ConjugateGradient", "ExactImplicit", "Implicit"]

_LARGEST = 5000
"""The most weights of which a dense Hessian is built."""
_log = logging.getLogger(__name__)
_MESSAGE = (
    "conjugate gradient met a curvature of %.3g in the inner Hessian and stopped early; "
    "a damping above %.3g would let it go on."
)


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


@dataclass(frozen=True)
class T1T2(Implicit):
    """∂L2/∂α − M·∂L2/∂w: the inverse Hessian is taken for the identity (Luketina et al., 2016; iDARTS, Table 4)."""

    def solve(self, products: Products, b: Weights, point: EvaluationPoint) -> Weights:
        """H⁻¹ ≈ I."""
        return b


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


@dataclass(frozen=True)
class ConjugateGradient(Implicit):
    """∂L2/∂α − M·x, where (H + δI)·x = ∂L2/∂w is solved by conjugate gradient (Rajeswaran et al., 2019).

    Exact after as many ``steps`` as there are weights, if the ``damping`` δ makes H + δI positive definite. The
    iteration stops at a direction of negative curvature, with one warning.
    """

    steps: Iterations = 10
    damping: NonNegative = 0.0

    def solve(self, products: Products, b: Weights, point: EvaluationPoint) -> Weights:
        """Solve the damped system."""
        solution = conjugate_gradient(products.hessian, b, self.steps, self.damping)
        if solution.bad_curvature is not None:
            warn_once(_log, _MESSAGE, solution.bad_curvature - self.damping, self.damping - solution.bad_curvature)
        return Weights(solution.x)


@dataclass(frozen=True)
class ExactImplicit(Implicit):
    """∂L2/∂α − M·H⁻¹·∂L2/∂w with the Hessian as a matrix (iDARTS, Eq. 6): exact where ∂L1/∂w = 0.

    It takes one Hessian product per weight and O(P²) memory: for small problems of at most 5,000 weights.
    """

    def check(self, weights: int) -> None:
        """Reject more weights than a dense Hessian allows."""
        if weights > _LARGEST:
            raise UserError(
                f"ExactImplicit builds the dense Hessian of {weights} weights, but its limit is {_LARGEST}; use "
                f"ConjugateGradient or Neumann, which need only Hessian products."
            )

    def solve(self, products: Products, b: Weights, point: EvaluationPoint) -> Weights:
        """Solve H·x = b."""
        self.check(sum(value.numel() for value in b.values()))
        matrix = dense(products.hessian, b)
        solution, failed = torch.linalg.solve_ex((matrix + matrix.T) / 2, flattened(b))
        if failed:
            raise UserError(
                "the Hessian of the inner loss is singular, so w* is not a function of α; add a little weight decay to "
                "the inner loss, or use ConjugateGradient with damping."
            )
        return unflattened(solution, b)
