"""Auxiliary skip connections beside the operations of every edge, as in DARTS- (Chu et al., 2021)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from archgrad.errors import UserError
from archgrad.operations import Term, Weighted
from archgrad.parts.fields import NonNegative, check_fields
from archgrad.supernet.modifiers.base import Modifier, Purpose, SearchTime
from archgrad.training.schedule import ramp

__all__ = ["AuxiliarySkipConnections", "with_skip"]


@dataclass(frozen=True)
class AuxiliarySkipConnections(Modifier):
    """Add β·x to the operations of every edge: β·x + Σ p[o]·o(x) (DARTS-, Chu et al., 2021, Eq. 6).

    β goes linearly from ``start`` to ``end`` over the search and acts in all losses. At stride 2, a factorized
    reduction with its own weights halves x.
    """

    builds: ClassVar[Mapping[str, Any]] = {"auxiliary_skip": True}

    start: NonNegative = 1.0
    end: NonNegative = 0.0

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.start and not self.end:
            raise UserError(
                f"start and end of {type(self).__name__} are 0, so it would do nothing; set one of them above 0, or "
                f"leave {type(self).__name__} out."
            )

    def arguments(self, purpose: Purpose, time: SearchTime) -> Mapping[str, Any]:
        """Return β, for every purpose.

        >>> AuxiliarySkipConnections().arguments("evaluation", SearchTime(2, 8, 0, 0.25))
        {'skip': 0.75}
        """
        return {"skip": ramp(self.start, self.end, time.progress)}


def with_skip(terms: list[Term], skip: Term) -> list[Term]:
    """Append an auxiliary skip connection; where a choice carries the same tensor, add to its weight instead."""
    for place, term in enumerate(terms):
        if isinstance(term, Weighted) and isinstance(skip, Weighted) and term.tensor is skip.tensor:
            return [*terms[:place], Weighted(term.tensor, term.weight + skip.weight), *terms[place + 1 :]]
    return [*terms, skip]
