"""The largest of nearly equally probable architectures."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated

from archgrad.autodiff.tensors import Probabilities
from archgrad.discretizers.argmax import Argmax
from archgrad.discretizers.base import SupernetEvaluation, check_probabilities
from archgrad.parts.fields import Range
from archgrad.spaces import Genotype, SearchSpace
from archgrad.spaces.cost_model import CostModel, NetworkShape

__all__ = ["Largest"]


@dataclass(frozen=True)
class Largest(Argmax):
    """Of the choices of a row that are nearly as probable as the strongest, take the one with the most multiply-adds.

    Choice c of a row is near if p_c ≥ ``share`` · max p. Where a node keeps k edges, an edge is near if its best choice
    has at least ``share`` times the probability of the k-th strongest edge's, and the k most expensive near ones stay.
    A small supernet that is trained briefly on small images prefers what learns fast. So between choices that it hardly
    tells apart, this takes the one that can learn more. A search that has decided is derived as by
    :class:`~archgrad.discretizers.Argmax`, which ``share`` 1 is; ``share`` 0 ignores the search. Ties count as there:
    costs decide between them, but the search has not. No paper has it.
    """

    share: Annotated[float, Range(0, 1)] = 0.4

    def select(
        self, space: SearchSpace, probabilities: Probabilities, evaluation: SupernetEvaluation | None = None
    ) -> Genotype:
        """Derive with the multiply-adds of every choice in the plain network for 32×32 pixels."""
        check_probabilities(space, probabilities)
        costs = _multiply_adds(space).around(probabilities)
        return space.genotype(costs.select(probabilities, 1 - self.share))


@lru_cache(maxsize=8)
def _multiply_adds(space: SearchSpace) -> CostModel:
    """Count the operations of a space once, not in every epoch."""
    return CostModel.measure(space, "madds", NetworkShape())
