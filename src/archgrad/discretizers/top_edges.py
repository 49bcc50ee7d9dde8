"""Keep a fixed number of edges per node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from archgrad.discretizers.base import Discretizer, SupernetEvaluation, derive_genotype
from archgrad.discretizers.ties import Ties, count_ties
from archgrad.errors import UserError
from archgrad.fields import Range, check_value
from archgrad.spaces import Genotype, SearchSpace
from archgrad.tensors import Probabilities

__all__ = ["TopEdges"]


@dataclass(frozen=True)
class TopEdges(Discretizer):
    """Keep, at each node, the ``edges`` incoming edges whose best allowed operation is strongest (DARTS, Section 2.4).

    Edge weights multiply the strength.
    """

    edges: Annotated[int, Range(1, 1000)] = 2

    def check(self, space: SearchSpace) -> None:
        """Reject spaces whose genotypes keep another number of edges."""
        for block in space.blocks:
            if block.keep != self.edges:
                wanted = "every edge" if block.keep is None else f"{block.keep} edges per node"
                raise UserError(
                    f"TopEdges(edges={self.edges}) does not fit the space {space.name!r}, whose block {block.name!r} "
                    f"keeps {wanted}; use discretizers.Argmax(), which follows the space."
                )

    def ties(self, space: SearchSpace, probabilities: Probabilities, last: bool) -> Ties:
        """Count all ties, because probabilities alone decide."""
        return count_ties(space, probabilities)

    def select(
        self, space: SearchSpace, probabilities: Probabilities, evaluation: SupernetEvaluation | None = None
    ) -> Genotype:
        """Derive with the same number of edges at every node."""
        check_value("space", space, SearchSpace)
        return derive_genotype(space, probabilities, {block.name: self.edges for block in space.blocks})
