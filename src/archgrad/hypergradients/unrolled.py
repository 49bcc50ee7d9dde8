"""Second-order DARTS."""

from __future__ import annotations

from dataclasses import dataclass

from archgrad.hypergradients.reverse import Reverse

__all__ = ["Unrolled"]


@dataclass(frozen=True)
class Unrolled(Reverse):
    """∂L2/∂α(w', α) − γ·M·∂L2/∂w(w', α), with M at w and w' one virtual step ahead (DARTS, Eq. 7; iDARTS, Eq. 3).

    The virtual step has the momentum and the weight decay of the real one; with Nesterov momentum μ, γ in the second
    term is γ·(1 + μ), as the chain rule says.
    """

    @property
    def lengths(self) -> tuple[int, int]:
        """One step."""
        return 1, 1
