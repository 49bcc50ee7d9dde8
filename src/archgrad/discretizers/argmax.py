"""The derivation rule published with each space."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from archgrad.autodiff.tensors import Probabilities
from archgrad.discretizers.base import (
    Discretizer,
    SupernetEvaluation,
    Ties,
    check_probabilities,
    count_ties,
    edge_strengths,
    strongest_choices,
)
from archgrad.spaces import Genotype, SearchSpace

__all__ = ["Argmax", "DerivedOnce"]


@dataclass(frozen=True)
class Argmax(Discretizer):
    """The strongest choice of each row, for as many rows per node as the space keeps.

    In NAS-Bench-201 this is the argmax on every edge. In the DARTS space each node keeps the two incoming edges whose
    best operation other than ``none`` is strongest. Edge weights multiply the strength.
    """

    def ties(self, space: SearchSpace, probabilities: Probabilities, last: bool) -> Ties:
        """Count all ties, because probabilities alone decide."""
        return count_ties(space, probabilities)

    def select(
        self, space: SearchSpace, probabilities: Probabilities, evaluation: SupernetEvaluation | None = None
    ) -> Genotype:
        """Derive with the number of edges that each block keeps."""
        check_probabilities(space, probabilities)
        return space.genotype(
            {
                block.name: strongest_choices(
                    block, probabilities[block.name], block.keep, edge_strengths(block, probabilities)
                )
                for block in space.blocks
            }
        )


class DerivedOnce(Discretizer):
    """It measures architectures, so it derives only at the end of a search; epochs before record that of Argmax."""

    once: ClassVar[bool] = True
    measures: ClassVar[bool] = True

    def ties(self, space: SearchSpace, probabilities: Probabilities, last: bool) -> Ties:
        """Return no ties at the end, where the metric decides."""
        return Ties() if last else count_ties(space, probabilities)

    def interim(
        self, space: SearchSpace, probabilities: Probabilities, evaluation: SupernetEvaluation | None = None
    ) -> Genotype:
        """Derive by the probabilities alone."""
        return Argmax().select(space, probabilities)
