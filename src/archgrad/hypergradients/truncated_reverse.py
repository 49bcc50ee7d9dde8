"""Truncated reverse mode."""

from __future__ import annotations

from dataclasses import dataclass

from archgrad.errors import UserError
from archgrad.hypergradients.base import Iterations
from archgrad.hypergradients.reverse import Reverse

__all__ = ["TruncatedReverse"]


@dataclass(frozen=True)
class TruncatedReverse(Reverse):
    """Take ``steps`` inner steps and backpropagate through the last ``keep`` (Shaban et al., 2019; iDARTS, Eq. 5).

    With ``keep`` = ``steps`` it is reverse mode (iDARTS, Eq. 4): exact for their result. Memory is O(``keep``). Where
    the weights have converged, it equals a Neumann series of ``keep`` − 1 terms (iDARTS, Corollary 2).
    """

    steps: Iterations = 4
    keep: Iterations = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.keep > self.steps:
            raise UserError(f"TruncatedReverse keeps {self.keep} of {self.steps} steps; keep at most {self.steps}.")

    @property
    def lengths(self) -> tuple[int, int]:
        """The last steps are kept."""
        return self.steps, self.keep
