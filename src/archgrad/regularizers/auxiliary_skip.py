"""Auxiliary skip connections that fade, as in DARTS-."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from archgrad.errors import UserError
from archgrad.parts.fields import NonNegative
from archgrad.regularizers.base import Regularizer
from archgrad.supernet import Modifier, Purpose, SearchTime
from archgrad.training.schedule import ramp

__all__ = ["AuxiliarySkip"]


@dataclass(frozen=True)
class AuxiliarySkip(Regularizer, Modifier):
    """Add β·x to the operations of every edge: β·x + Σ p[o]·o(x) (DARTS-, Chu et al., 2021, Eq. 6).

    β goes linearly from ``start`` to ``end`` over the search and acts in all losses. At stride 2, a factorized
    reduction with its own weights halves x. The auxiliary connection carries the gradients, so the skip connection
    among the choices wins only by its own value. Plain networks and the evaluation of architectures do not use it.
    """

    builds: ClassVar[Mapping[str, Any]] = {"auxiliary_skip": True}

    start: NonNegative = 1.0
    end: NonNegative = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.start and not self.end:
            raise UserError(
                f"start and end of {type(self).__name__} are 0, so it would do nothing; set one of them above 0, or "
                f"leave {type(self).__name__} out."
            )

    @property
    def modifiers(self) -> tuple[Modifier, ...]:
        """Itself: it acts only in the supernet."""
        return (self,)

    def arguments(self, purpose: Purpose, time: SearchTime) -> Mapping[str, Any]:
        """Return β, for every purpose.

        >>> AuxiliarySkip().arguments("evaluation", SearchTime(2, 8, 0, 0.25))
        {'skip': 0.75}
        """
        return {"skip": ramp(self.start, self.end, time.progress)}
