"""When a search ends before its last epoch, and which epoch's architecture it then returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

from archgrad.errors import UserError, check_number, check_whole

__all__ = ["REACTIONS", "EigenvalueStop", "Stop"]

REACTIONS = ("warn", "stop", "switch", "ignore")
"""What a search may do when it collapses."""


class Stop(NamedTuple):
    """The epoch whose architecture is returned, counted from 1, and a sentence that says why."""

    epoch: int
    reason: str


@dataclass(frozen=True)
class EigenvalueStop:
    """Stop once the architecture's loss grows sharp: R-DARTS-ES (Zela et al., 2020, Section 4.3).

    λ̄(i) is the mean of the largest eigenvalue of ∇²α L2 over the ``window`` epochs up to i; the paper smooths over as
    many epochs around i, which would have to wait for those after it. The search stops after epoch i if
    λ̄(i − window) / λ̄(i) < ``ratio``, and returns the architecture of epoch i − window. Both means are of whole windows,
    so that no search ends before epoch 2·window. Where λ̄(i) is not above 0 the loss does not bend upwards, and the
    search goes on; a rise from 0 or below to above 0 is one by more than any factor. The eigenvalue is measured in
    every epoch, by ``steps`` of Lanczos; those of a warm-up, in which only the weights move, do not count.
    """

    window: int = 5
    ratio: float = 0.75
    steps: int = 5

    def __post_init__(self) -> None:
        check_whole("stop.window", self.window)
        check_whole("stop.steps", self.steps)
        check_number("stop.ratio", self.ratio, positive=True)
        if self.ratio > 1:
            raise UserError(f"stop.ratio is {self.ratio}; it must be at most 1: above that no rise is needed.")

    def verdict(self, eigenvalues: Sequence[float], warmup: int = 0) -> Stop | None:
        """Return whether to stop after the last of these epochs, whose eigenvalues they are from the first on.

        Those of the first ``warmup`` epochs are left out.

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
