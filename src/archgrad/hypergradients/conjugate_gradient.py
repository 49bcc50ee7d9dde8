"""Conjugate gradient."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from archgrad.autodiff.krylov import conjugate_gradient
from archgrad.autodiff.products import Products
from archgrad.autodiff.tensors import Alpha, Weights
from archgrad.autodiff.vectors import added, zeros_like
from archgrad.hypergradients.base import HypergradientState, Iterations
from archgrad.hypergradients.evaluation_point import EvaluationPoint
from archgrad.hypergradients.implicit import Implicit
from archgrad.parts.fields import NonNegative
from archgrad.system.warn_once import warn_once

__all__ = ["ConjugateGradient"]

_log = logging.getLogger(__name__)
_MESSAGE = (
    "conjugate gradient met a curvature of %.3g in the inner Hessian and stopped early; "
    "a damping above %.3g would let it go on."
)


@dataclass(frozen=True)
class ConjugateGradient(Implicit):
    """∂L2/∂α − M·x, where (H + δI)·x = ∂L2/∂w is solved by conjugate gradient (Rajeswaran et al., 2019).

    Exact after as many ``steps`` as there are weights, if the ``damping`` δ makes H + δI positive definite. The
    iteration stops at a direction of negative curvature, with one warning. With ``warm_start`` it begins at the last
    solution, for one product more; weights and α move little between two estimates, so a few steps then suffice.
    """

    steps: Iterations = 10
    damping: NonNegative = 0.0
    warm_start: bool = False

    def init(self, weights: Weights, alpha: Alpha) -> HypergradientState:
        """Begin a warm start at 0."""
        return {"solution": zeros_like(weights)} if self.warm_start else {}

    def estimate(self, point: EvaluationPoint, state: HypergradientState) -> tuple[Alpha, HypergradientState]:
        """Combine both terms, and keep the solution for a warm start."""
        if not self.warm_start:
            return super().estimate(point, state)
        direct, of_weights = point.outer()
        products = self.products_at(point)
        x = self._solve(products, of_weights, Weights(state["solution"]))
        return added(direct, products.mixed(x), -1.0), {"solution": x}

    def solve(self, products: Products, b: Weights, point: EvaluationPoint) -> Weights:
        """Solve the damped system."""
        return self._solve(products, b)

    def _solve(self, products: Products, b: Weights, start: Weights | None = None) -> Weights:
        solution = conjugate_gradient(products.hessian, b, self.steps, self.damping, start)
        if solution.bad_curvature is not None:
            warn_once(_log, _MESSAGE, solution.bad_curvature - self.damping, self.damping - solution.bad_curvature)
        return Weights(solution.x)
