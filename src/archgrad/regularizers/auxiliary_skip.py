"""Auxiliary skip connections that fade, as in DARTS-."""

from __future__ import annotations

from dataclasses import dataclass

from archgrad.errors import UserError, check_number
from archgrad.regularizers.base import Regularizer
from archgrad.schedule import ramp

__all__ = ["AuxiliarySkip"]


@dataclass(frozen=True)
class AuxiliarySkip(Regularizer):
    """Give every edge β·x beside its operations: o(x) = β·x + Σ p[o]·o(x) (DARTS-, Chu et al., 2021, Eq. 6).

    β moves linearly over the search, from ``start`` to ``end``, and is in both losses. Gradients pass through the
    auxiliary connection, so that the skip connection among the choices has only its own merit to win by. At stride 2,
    x is halved by a factorised reduction with weights of its own. Neither a plain network nor what judges
    architectures has any of it.
    """

    start: float = 1.0
    end: float = 0.0

    def __post_init__(self) -> None:
        check_number("start of AuxiliarySkip", self.start)
        check_number("end of AuxiliarySkip", self.end)
        if not self.start and not self.end:
            raise UserError(
                "start and end of AuxiliarySkip are 0, so that no auxiliary skip connection would ever carry anything; "
                "set one of them to more, or leave AuxiliarySkip out."
            )

    @property
    def needs_auxiliary_skip(self) -> bool:
        """It is what they are for."""
        return True

    def auxiliary_skip(self, progress: float) -> float:
        """Return β.

        >>> AuxiliarySkip().auxiliary_skip(0.25)
        0.75
        """
        return ramp(self.start, self.end, progress)
