"""Auxiliary skip connections that fade, as in DARTS-."""

from __future__ import annotations

from dataclasses import dataclass

from archgrad.regularizers.base import Regularizer
from archgrad.supernet.modifiers import AuxiliarySkipConnections, Modifier

__all__ = ["AuxiliarySkip"]


@dataclass(frozen=True)
class AuxiliarySkip(AuxiliarySkipConnections, Regularizer):
    """Add β·x to the operations of every edge, with β going from ``start`` to ``end`` (DARTS-, Chu et al., 2021).

    The auxiliary connection carries the gradients, so the skip connection among the choices wins only by its own value.
    Plain networks and the evaluation of architectures do not use it.

    >>> AuxiliarySkip().modifiers
    (AuxiliarySkip(start=1.0, end=0.0),)
    """

    @property
    def modifiers(self) -> tuple[Modifier, ...]:
        """Itself: it acts only in the supernet."""
        return (self,)
