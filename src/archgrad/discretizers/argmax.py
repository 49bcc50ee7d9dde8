"""The derivation rule published with each space."""

from __future__ import annotations

from dataclasses import dataclass

from archgrad.discretizers.base import Discretizer, SupernetEvaluation, derive_genotype
from archgrad.discretizers.ties import Ties, count_ties
from archgrad.spaces import Genotype, SearchSpace
from archgrad.tensors import Probabilities

__all__ = ["Argmax"]


@dataclass(frozen=True)
class Argmax(Discretizer):
    """Each row's strongest choice, of as many rows per node as the space keeps.

    In NAS-Bench-201 that is the argmax of every edge; in the DARTS space the two incoming edges of each node whose best
    operation other than ``none`` is strongest, with that operation. Edge weights, where a space has them, are factors
    of that strength.
    """

    def ties(self, space: SearchSpace, probabilities: Probabilities, last: bool) -> Ties:
        """Count them: nothing else chooses."""
        return count_ties(space, probabilities)

    def select(
        self, space: SearchSpace, probabilities: Probabilities, evaluation: SupernetEvaluation | None = None
    ) -> Genotype:
        """Derive by each block's own rule."""
        return derive_genotype(space, probabilities, {block.name: block.keep for block in space.blocks})
