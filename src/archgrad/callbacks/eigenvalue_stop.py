"""R-DARTS-ES: a stop once the architecture's loss grows sharp."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Annotated, ClassVar

from archgrad.arch_optimizers import ArchOptimizer
from archgrad.autodiff.products import ProductKind
from archgrad.callbacks.arch_curvature import ArchCurvature, largest_eigenvalue
from archgrad.callbacks.base import Callback, LanczosSteps, Measures, Need, Stop
from archgrad.callbacks.search import Search
from archgrad.discretizers import Discretizer
from archgrad.errors import UserError
from archgrad.hypergradients import EvaluationPoint
from archgrad.parts.fields import Range, check_fields
from archgrad.relaxations import Relaxation

__all__ = ["EigenvalueStop"]


@dataclass(frozen=True)
class EigenvalueStop(Callback):
    """Stop once the architecture's loss grows sharp: R-DARTS-ES (Zela et al., 2020, Section 4.3).

    λ̄(i) is the mean of the largest eigenvalue of ∇²α L2 over the ``window`` epochs up to i. (The paper centers the
    window on i, which needs later epochs.) The search stops after epoch i if λ̄(i − window) / λ̄(i) < ``ratio``, and
    returns the architecture of epoch i − window. Both windows must be full, so no search ends before epoch 2·window.
    While λ̄(i) ≤ 0 the search continues; a rise from λ̄ ≤ 0 to λ̄ > 0 counts as larger than any ratio. Every epoch is
    measured by ``steps`` of Lanczos. Epochs of a warm-up, where only the weights move, do not count.
    """

    kind: ClassVar[str] = ArchCurvature.kind
    needs: ClassVar[frozenset[Need]] = ArchCurvature.needs

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

    @property
    def difference(self) -> ProductKind:
        """One-sided differences."""
        return "forward"

    def due(self, index: int, steps: int) -> bool:
        """Measure every epoch, before its last step."""
        return (index + 1) % steps == 0

    def measure_point(self, point: EvaluationPoint) -> Measures:
        """Return ``alpha_eigenvalue``."""
        return {"alpha_eigenvalue": largest_eigenvalue(point, self.steps)}

    def stop(self, search: Search) -> Stop | None:
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
