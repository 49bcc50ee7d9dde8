"""Auxiliary skip connections beside the operations of every edge, as in DARTS- (Chu et al., 2021).

Their weight over a search is that of :class:`~archgrad.regularizers.AuxiliarySkip`.
"""

from __future__ import annotations

from archgrad.operations import Term, Weighted

__all__ = ["with_skip"]


def with_skip(terms: list[Term], skip: Term) -> list[Term]:
    """Append an auxiliary skip connection; where a choice carries the same tensor, add to its weight instead."""
    for place, term in enumerate(terms):
        if isinstance(term, Weighted) and isinstance(skip, Weighted) and term.tensor is skip.tensor:
            return [*terms[:place], Weighted(term.tensor, term.weight + skip.weight), *terms[place + 1 :]]
    return [*terms, skip]
