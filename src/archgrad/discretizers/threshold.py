"""Keep only operations that the search is sure of, as in FairDARTS."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from archgrad.autodiff.tensors import Probabilities
from archgrad.discretizers.argmax import Argmax
from archgrad.discretizers.base import SupernetEvaluation, check_probabilities
from archgrad.parts.fields import Probability
from archgrad.spaces import DecisionBlock, Genotype, SearchSpace

__all__ = ["Threshold"]

NONE = "none"


@dataclass(frozen=True)
class Threshold(Argmax):
    """The strongest choice of each row; ``none`` where it is below ``least`` (FairDARTS, Chu et al., 2020).

    As many rows per node as the space keeps are chosen by their strongest choices, in the DARTS space two. The
    published code leaves a row out whose choice is below 0.85, so a node may have fewer inputs. Where a genotype may
    contain ``none``, as in NAS-Bench-201, that is the same. Where each node needs its inputs, as in the DARTS space,
    the strongest choice stays.
    """

    least: Probability = 0.85

    def select(
        self, space: SearchSpace, probabilities: Probabilities, evaluation: SupernetEvaluation | None = None
    ) -> Genotype:
        """Derive as argmax does, after ``none`` has won the rows that are too weak."""
        check_probabilities(space, probabilities)
        sure = {block.name: self._sure(block, probabilities[block.name]) for block in space.blocks}
        return super().select(space, Probabilities({**probabilities, **sure}), evaluation)

    def _sure(self, block: DecisionBlock, weights: Tensor) -> Tensor:
        """Give ``none`` the greatest weight in the rows that offer it and have no choice above the threshold."""
        weights = weights.clone()
        for index, row in enumerate(block.rows):
            droppable = NONE in row.choices and NONE not in block.excluded and block.keep is None
            if droppable and weights[index, : len(row.choices)].max() < self.least:
                weights[index, row.choices.index(NONE)] = 1.0
        return weights
