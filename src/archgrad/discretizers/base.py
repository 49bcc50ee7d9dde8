"""The family of discretisers: from probabilities to a genotype."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from torch import Tensor

from archgrad.spaces import DecisionBlock, Genotype, SearchSpace

__all__ = ["Discretizer", "strongest"]


class Discretizer(ABC):
    """Probabilities ``{block: [rows, choices]}`` → genotype."""

    def check(self, space: SearchSpace) -> None:
        """Raise a UserError, before anything is trained, if genotypes of this space cannot be derived so."""
        return

    @abstractmethod
    def select(self, space: SearchSpace, probabilities: Mapping[str, Tensor]) -> Genotype:
        """Derive the discrete architecture."""


def strongest(block: DecisionBlock, probabilities: Tensor, keep: int | None) -> list[tuple[int, int]]:
    """Return (row, choice) of each row's best allowed choices, at each target only of the ``keep`` strongest rows.

    A row is as strong as its best choice. Ties go to the first choice and the first row, so that the same
    probabilities always give the same genotype.
    """
    best = [_best_choices(block, index, weights) for index, weights in enumerate(probabilities.tolist())]
    kept: list[int] = []
    for target in block.targets:
        rows = [index for index, row in enumerate(block.rows) if row.target == target]
        rows.sort(key=lambda index: -best[index][0][1])
        kept += sorted(rows[:keep])
    return [(index, choice) for index in kept for choice in sorted(choice for choice, _ in best[index])]


def _best_choices(block: DecisionBlock, row: int, weights: list[float]) -> list[tuple[int, float]]:
    """Return the (choice, weight) pairs that a row picks, strongest first."""
    choices = block.rows[row].choices
    allowed = [(index, weights[index]) for index, choice in enumerate(choices) if choice not in block.excluded]
    return sorted(allowed, key=lambda pair: -pair[1])[: block.rows[row].picks]
