"""What is measured at the end of an epoch: the architecture as it is then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from archgrad.discretizers import SupernetEvaluation
from archgrad.spaces import Genotype, SearchSpace
from archgrad.tensors import Probabilities

__all__ = ["Snapshot"]


@dataclass(frozen=True)
class Snapshot:
    """The search between two epochs: probabilities ``{block: [rows, choices]}`` and the genotype they give.

    ``judge`` tells the accuracy of the shared weights with any mixture; ``last`` says that the search is complete, and
    ``initial`` are the probabilities that it began with. ``ties`` counts the rows whose choices tie exactly; an
    ``undecided`` one has ties everywhere, so that nobody has chosen the genotype.
    """

    space: SearchSpace
    probabilities: Probabilities
    genotype: Genotype
    evaluation: SupernetEvaluation | None = None
    last: bool = False
    initial: Mapping[str, Tensor] | None = None
    undecided: bool = False
    ties: int = 0
