"""Auxiliary skip connections that fade, as in DARTS-."""

from __future__ import annotations

from dataclasses import dataclass

from archgrad.regularizers.base import Regularizer
from archgrad.supernet.modifiers import AuxiliarySkipConnections, Modifier

__all__ = ["AuxiliarySkip"]


@dataclass(frozen=True)
class AuxiliarySkip(AuxiliarySkipConnections, Regularizer):
    """Give every edge β·x beside its operations, with β falling from ``start`` to ``end`` (DARTS-, Chu et al., 2021).

    Gradients pass through the auxiliary connection, so that the skip connection among the choices has only its own
    merit to win by. Neither a plain network nor what judges architectures has any of it.

    >>> AuxiliarySkip().modifiers
    (AuxiliarySkip(start=1.0, end=0.0),)
    """

    @property
    def modifiers(self) -> tuple[Modifier, ...]:
        """Itself: all that it does is in the supernet."""
        return (self,)
