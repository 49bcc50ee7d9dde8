"""The ends of the inner Hessian's spectrum, which say whether the Neumann series converges."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import ClassVar, Literal

from archgrad.autodiff.krylov import extreme_eigenvalues
from archgrad.autodiff.products import ProductKind
from archgrad.callbacks.base import Callback, LanczosSteps, Measures
from archgrad.diagnostics.estimates import start_vector
from archgrad.hypergradients import EvaluationPoint, largest_safe_rate
from archgrad.parts.fields import Count, Positive
from archgrad.system.warn_once import warn_once

__all__ = ["InnerCurvature"]

_log = logging.getLogger("archgrad")
_DIVERGES = (
    "the Neumann series cannot converge here: γ is %.3g and the largest eigenvalue of the inner Hessian %.3g, so "
    "‖I − γH‖ is %.3g. The largest safe γ is %.3g: set hypergradient.lr to that or less, or to auto."
)


@dataclass(frozen=True)
class InnerCurvature(Callback):
    """Estimate λmax and λmin of the inner Hessian by Lanczos, and the contraction ‖I − γH‖ = max |1 − γλ|.

    γ is ``lr``: a number, None for the weights' current learning rate, or "auto" for the largest safe one. The series
    of :class:`archgrad.hypergradients.Neumann` converges if the contraction is below 1 (iDARTS, Lemma 3). If γ·λmax
    reaches 2, it diverges along the steepest direction; one warning then names the largest safe γ (Corollary 1). If
    λmin < 0, the contraction exceeds 1 for any γ: the K-th term grows by (1 − γλmin)^K along that direction.
    """

    kind: ClassVar[str] = "inner-curvature"

    lr: Positive | Literal["auto"] | None = None
    every: Count = 250
    steps: LanczosSteps = 10
    products: ProductKind = "forward"

    @property
    def difference(self) -> ProductKind | None:
        """The kind of its products, None if they are exact."""
        return None if self.products == "exact" else self.products

    def measure_point(self, point: EvaluationPoint) -> Measures:
        """Return ``lambda_max``, ``lambda_min`` and ``contraction``."""
        products = point.products(self.products)
        smallest, largest = extreme_eigenvalues(products.hessian, start_vector(point.weights), self.steps)
        rate = self._rate(point, smallest, largest)
        contraction = max(abs(1 - rate * largest), abs(1 - rate * smallest))
        if rate * largest >= 2:
            warn_once(_log, _DIVERGES, rate, largest, contraction, largest_safe_rate(smallest, largest))
        return {"lambda_max": largest, "lambda_min": smallest, "contraction": contraction}

    def _rate(self, point: EvaluationPoint, smallest: float, largest: float) -> float:
        if isinstance(self.lr, str):
            return largest_safe_rate(smallest, largest)
        return point.rate(self.lr)
