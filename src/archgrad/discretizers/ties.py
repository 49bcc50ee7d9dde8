"""Exact ties between choices, where probabilities decide nothing."""

from __future__ import annotations

from typing import NamedTuple

from archgrad.autodiff.tensors import Probabilities
from archgrad.spaces import DecisionBlock, SearchSpace

__all__ = ["Ties", "count_ties", "margins"]


class Ties(NamedTuple):
    """How many rows tie, ``of`` all rows with a choice.

    In a row that ties, the least likely picked choice and the best one left out are exactly as likely.
    """

    rows: int = 0
    of: int = 0

    @property
    def everywhere(self) -> bool:
        """Whether every row ties, as with the even mixture of a warm-up."""
        return self.rows > 0 and self.rows == self.of

    def __str__(self) -> str:
        return f"{self.rows} of {self.of} choices tie exactly"


def count_ties(space: SearchSpace, probabilities: Probabilities) -> Ties:
    """Count the rows of a space that tie."""
    ahead = margins(space, probabilities)
    return Ties(sum(lead == 0 for lead in ahead), len(ahead))


def margins(space: SearchSpace, probabilities: Probabilities) -> list[float]:
    """Return each row's margin: the probability of its least likely picked choice minus that of the best one left out.

    Choices that a genotype may not contain, such as ``none`` in the DARTS space, do not count.
    """
    found = []
    for block in space.blocks:
        for row, weights in enumerate(probabilities[block.name].tolist()):
            ranked = _ranked(block, row, weights)
            picks = block.rows[row].picks
            if len(ranked) > picks:
                found.append(ranked[picks - 1] - ranked[picks])
    return found


def _ranked(block: DecisionBlock, row: int, weights: list[float]) -> list[float]:
    pairs = zip(block.rows[row].choices, weights, strict=False)
    return sorted((weight for choice, weight in pairs if choice not in block.excluded), reverse=True)
