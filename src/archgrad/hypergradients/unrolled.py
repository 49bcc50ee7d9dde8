"""Second-order DARTS."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from archgrad.bilevel.descent import Descent, InnerDescent
from archgrad.hypergradients.evaluation_point import EvaluationPoint
from archgrad.hypergradients.reverse import Reverse

__all__ = ["Unrolled"]


@dataclass(frozen=True)
class Unrolled(Reverse):
    """∂L2/∂α(w', α) − γ·M·∂L2/∂w(w', α), with M at w and w' one virtual step ahead (DARTS, Eq. 7; iDARTS, Eq. 3).

    The virtual step has the momentum and weight decay of the real one, or the moments of Adam. With Nesterov momentum
    μ, the factor of the second term is γ·(1 + μ), by the chain rule. With ``nesterov=False`` the virtual step uses
    plain momentum and the factor γ even if the real steps use Nesterov momentum, as in the published search code of
    NAS-Bench-201.
    """

    lengths: ClassVar[tuple[int, int]] = (1, 1)

    nesterov: bool = True

    def descent(self, point: EvaluationPoint) -> InnerDescent:
        """Return how the virtual step descends."""
        descent = super().descent(point)
        return descent if self.nesterov or not isinstance(descent, Descent) else replace(descent, nesterov=False)
