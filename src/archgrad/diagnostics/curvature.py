"""Whether the Neumann series can converge: the ends of the inner Hessian's spectrum."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import torch

from archgrad.autodiff.krylov import extreme_eigenvalues
from archgrad.autodiff.products import ProductKind, check_product_kind
from archgrad.diagnostics.snapshot import Probe
from archgrad.errors import check_whole
from archgrad.hypergradients import EvaluationPoint, Neumann, largest_safe_rate
from archgrad.tensors import Weights
from archgrad.warn_once import warn_once

__all__ = ["Curvature", "start_vector"]

_log = logging.getLogger("archgrad")
_DIVERGES = (
    "the Neumann series cannot converge here: γ is %.3g and the largest eigenvalue of the inner Hessian %.3g, so that "
    "‖I − γH‖ is %.3g. The largest safe γ is %.3g: set hypergradient.lr to that or less, or to auto."
)


@dataclass(frozen=True)
class Curvature(Probe):
    """Estimate λmax and λmin of the inner Hessian by Lanczos, and the contraction ‖I − γH‖ = max |1 − γλ|.

    The series of ``neumann`` converges where the contraction is below 1 (iDARTS, Lemma 3). Once γ·λmax reaches 2 it
    diverges along the steepest direction; that is warned of once, with the largest γ that is safe (Corollary 1). A
    λmin below 0 makes the contraction exceed 1 for any γ: the K-th term then grows by (1 − γλmin)^K along it.
    """

    neumann: Neumann
    every: int = 250
    steps: int = 10
    products: ProductKind = "forward"

    def __post_init__(self) -> None:
        check_whole("every of Curvature", self.every)
        check_whole("steps of Curvature", self.steps)
        check_product_kind(self.products)

    @property
    def difference(self) -> ProductKind | None:
        """The kind of its products, unless they are exact."""
        return None if self.products == "exact" else self.products

    def __call__(self, point: EvaluationPoint) -> dict[str, float]:
        """Return ``lambda_max``, ``lambda_min`` and ``contraction``."""
        products = point.products(self.products)
        smallest, largest = extreme_eigenvalues(products.hessian, start_vector(point.weights), self.steps)
        rate = self._rate(point, smallest, largest)
        contraction = max(abs(1 - rate * largest), abs(1 - rate * smallest))
        if rate * largest >= 2:
            warn_once(_log, _DIVERGES, rate, largest, contraction, largest_safe_rate(smallest, largest))
        return {"lambda_max": largest, "lambda_min": smallest, "contraction": contraction}

    def _rate(self, point: EvaluationPoint, smallest: float, largest: float) -> float:
        if isinstance(self.neumann.lr, str):
            return largest_safe_rate(smallest, largest)
        return point.descent_at(self.neumann.lr).lr


def start_vector(weights: Weights) -> Weights:
    """Return a vector that no eigenvector is orthogonal to, always the same."""
    generator = torch.Generator().manual_seed(0)
    return Weights(
        {
            name: torch.randn(value.shape, generator=generator, dtype=torch.float64).to(value)
            for name, value in weights.items()
        }
    )
