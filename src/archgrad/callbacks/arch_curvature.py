"""The curvature of the architecture's loss: the largest eigenvalue of its Hessian in α."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from archgrad.autodiff.krylov import extreme_eigenvalues
from archgrad.autodiff.products import ProductKind, products_of
from archgrad.autodiff.tensors import Alpha, Weights
from archgrad.callbacks.base import Callback, LanczosSteps, Measures, Need
from archgrad.hypergradients import EvaluationPoint
from archgrad.parts.fields import Count

__all__ = ["ArchCurvature", "largest_eigenvalue"]


@dataclass(frozen=True)
class ArchCurvature(Callback):
    """Estimate the largest eigenvalue of ∇²α L2, which grows before a collapse (Zela et al., 2020, Section 4).

    L2 is the loss that trains the architecture, on the outer batch of an epoch's last step. The Hessian is taken in the
    coordinates of α, so values compare only within one relaxation. Sampled relaxations do not fit: a draw may jump
    where α moves, and a difference of gradients is then not a derivative. ``steps`` of Lanczos cost ``steps`` + 1
    gradients of α and give a lower bound. At least ``minimum`` steps lie between two measured epochs.
    """

    kind: ClassVar[str] = "architecture-curvature"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.BILEVEL_POINT})

    steps: LanczosSteps = 2
    minimum: Count = 200

    def due(self, index: int, steps: int) -> bool:
        """Tell whether step ``index`` ends one of the measured epochs."""
        apart = -(-self.minimum // steps)
        return (index + 1) % (apart * steps) == 0

    @property
    def difference(self) -> ProductKind:
        """One-sided differences."""
        return "forward"

    def measure_point(self, point: EvaluationPoint) -> Measures:
        """Return ``alpha_eigenvalue``."""
        return {"alpha_eigenvalue": largest_eigenvalue(point, self.steps)}


def largest_eigenvalue(point: EvaluationPoint, steps: int) -> float:
    """Return the largest eigenvalue of ∇²α L2 within the span of g, A·g, …, where g = ∂L2/∂α and A = ∇²α L2.

    The gradient is a good start, because most of it lies in the leading eigenspaces of the Hessian (Gur-Ari et al.,
    2018), and it is already known. A·v is a one-sided difference of two gradients with frozen kinks of the network, or
    exact where differences mislead.
    """

    def loss(variables: Weights, nothing: Alpha) -> Tensor:
        return point.problem.outer(point.weights, Alpha(variables), point.outer_batch)

    products = products_of("exact" if point.differences_mislead else "forward", loss, Weights(point.alpha), Alpha({}))
    return extreme_eigenvalues(products.hessian, products.gradient(), steps)[1]
