"""The architecture at the end of an epoch, as callbacks see it."""

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
    """The search between two epochs: probabilities ``{block: [rows, choices]}`` and their genotype.

    ``evaluation`` measures the accuracy of the shared weights with any mixture. ``last``: the search is complete.
    ``initial`` are the probabilities at its start. ``ties`` counts the rows whose choices tie exactly. ``undecided``:
    all rows tie, or α has not moved yet, so nothing has chosen the genotype.
    """

    space: SearchSpace
    probabilities: Probabilities
    genotype: Genotype
    evaluation: SupernetEvaluation | None = None
    last: bool = False
    initial: Mapping[str, Tensor] | None = None
    undecided: bool = False
    ties: int = 0
