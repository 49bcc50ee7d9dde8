"""Conjugate gradient."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from archgrad.autodiff.krylov import conjugate_gradient
from archgrad.autodiff.products import Products
from archgrad.autodiff.tensors import Weights
from archgrad.hypergradients.base import Iterations
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
