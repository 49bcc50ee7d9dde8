"""The curvature of the architecture's loss, the largest eigenvalue of its Hessian in α, and a stop once it grows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Annotated, ClassVar

from torch import Tensor

from archgrad.arch_optimizers import ArchOptimizer
from archgrad.autodiff.krylov import extreme_eigenvalues
from archgrad.autodiff.products import ProductKind, products_of
from archgrad.autodiff.tensors import Alpha, Weights
from archgrad.callbacks.base import Callback, LanczosSteps, Measures, Stop
from archgrad.callbacks.search import SearchView
from archgrad.discretizers import Discretizer
from archgrad.errors import UserError
from archgrad.hypergradients import EvaluationPoint
from archgrad.parts.fields import Count, Range, check_fields
from archgrad.relaxations import Relaxation

__all__ = ["ArchCurvature", "EigenvalueStop", "largest_eigenvalue"]


class _CurvatureMeasure(Callback):
    """What both callbacks share: they measure the eigenvalue by ``steps`` of Lanczos."""

    kind: ClassVar[str] = "architecture-curvature"

    steps: int

    @property
    def difference(self) -> ProductKind:
        """One-sided differences."""
        return "forward"

    def measure_point(self, point: EvaluationPoint) -> Measures:
        """Return ``alpha_eigenvalue``."""
        return {"alpha_eigenvalue": largest_eigenvalue(point, self.steps)}


@dataclass(frozen=True)
class ArchCurvature(_CurvatureMeasure):
    """Estimate the largest eigenvalue of ∇²α L2, which grows before a collapse (Zela et al., 2020, Section 4).

    L2 is the loss that trains the architecture, on the outer batch of an epoch's last step. The Hessian is taken in the
    coordinates of α, so values compare only within one relaxation. Sampled relaxations do not fit: a draw may jump
    where α moves, and a difference of gradients is then not a derivative. ``steps`` of Lanczos cost ``steps`` + 1
    gradients of α and give a lower bound. At least ``minimum`` steps lie between two measured epochs.
    """

    steps: LanczosSteps = 2
    minimum: Count = 200

    def due(self, index: int, steps: int) -> bool:
        """Tell whether step ``index`` ends one of the measured epochs."""
        apart = -(-self.minimum // steps)
        return (index + 1) % (apart * steps) == 0


@dataclass(frozen=True)
class EigenvalueStop(_CurvatureMeasure):
    """Stop once the architecture's loss grows sharp: R-DARTS-ES (Zela et al., 2020, Section 4.3).

    λ̄(i) is the mean of the largest eigenvalue of ∇²α L2 over the ``window`` epochs up to i. (The paper centers the
    window on i, which needs later epochs.) The search stops after epoch i if λ̄(i − window) / λ̄(i) < ``ratio``, and
    returns the architecture of epoch i − window. Both windows must be full, so no search ends before epoch 2·window.
    While λ̄(i) ≤ 0 the search continues; a rise from λ̄ ≤ 0 to λ̄ > 0 counts as larger than any ratio. Every epoch is
    measured by ``steps`` of Lanczos. Epochs of a warm-up, where only the weights move, do not count.
    """

    window: Annotated[int, Range(1, 10_000)] = 5
    ratio: Annotated[float, Range(0, 1, above=True)] = 0.75
    steps: LanczosSteps = 5

    def __post_init__(self) -> None:
        check_fields(self, "stop.{}")

    def check(self, relaxation: Relaxation, arch_optimizer: ArchOptimizer, discretizer: Discretizer) -> None:
        """Reject parts with which it could never stop, or could not return an earlier architecture."""
        name = type(self).__name__
        if not arch_optimizer.moves:
            raise UserError(
                f"{name} watches the curvature of the loss as the architecture moves, but "
                f"{type(arch_optimizer).__name__} never moves it; leave stop out, or choose an optimizer that moves it."
            )
        if relaxation.sampled:
            raise UserError(
                f"{name} watches the curvature of the loss, but the loss of {type(relaxation).__name__} jumps between "
                f"draws; leave stop out, or choose a relaxation that does not sample."
            )
        if discretizer.once:
            raise UserError(
                f"{name} returns the architecture of an earlier epoch, but {type(discretizer).__name__} derives only "
                f"one, at the end; leave stop out, or use discretizers.Argmax()."
            )

    def due(self, index: int, steps: int) -> bool:
        """Measure every epoch, before its last step."""
        return (index + 1) % steps == 0

    def stop(self, search: SearchView) -> Stop | None:
        """Apply the rule to all epochs so far."""
        return self.verdict([record["alpha_eigenvalue"] for record in search.history], search.warmup_epochs)

    def verdict(self, eigenvalues: Sequence[float], warmup: int = 0) -> Stop | None:
        """Return the stop after the last of these epochs, or None; ``eigenvalues`` has one per epoch.

        The first ``warmup`` epochs do not count.

        >>> EigenvalueStop(window=2).verdict([1.0, 1.0, 1.0, 1.2]) is None
        True
        >>> EigenvalueStop(window=2).verdict([1.0, 1.0, 1.0, 2.0]).epoch
        2
        """
        now, window = len(eigenvalues), self.window
        if now - warmup < 2 * window:
            return None
        before, after = fmean(eigenvalues[-2 * window : -window]), fmean(eigenvalues[-window:])
        if not (after > 0 and before < self.ratio * after):
            return None
        return Stop(
            now - window,
            f"stopped after epoch {now}: the largest eigenvalue of the architecture's Hessian rose from {before:.3g} "
            f"to {after:.3g} on an average of {window} epochs each, a ratio of {before / after:.3g}, which is below "
            f"{self.ratio:g}; the architecture is that of epoch {now - window}.",
        )


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
