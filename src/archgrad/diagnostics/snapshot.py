"""What a diagnostic sees, and what it gives: named numbers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor

from archgrad.autodiff.products import ProductKind
from archgrad.discretizers import SupernetEvaluation
from archgrad.hypergradients import EvaluationPoint
from archgrad.spaces import Genotype, SearchSpace
from archgrad.tensors import Probabilities

__all__ = ["Diagnostic", "Probe", "Snapshot"]


@dataclass(frozen=True)
class Snapshot:
    """The search between two epochs: probabilities ``{block: [rows, choices]}`` and the genotype they give.

    ``evaluation`` tells the accuracy of the shared weights with any mixture; ``last`` says that the search is complete.
    ``initial`` are the probabilities that it began with. An ``undecided`` one has exact ties
    everywhere, so that nobody has chosen the genotype.
    """

    space: SearchSpace
    probabilities: Probabilities
    genotype: Genotype
    evaluation: SupernetEvaluation | None = None
    last: bool = False
    initial: Mapping[str, Tensor] | None = None
    undecided: bool = False


Diagnostic = Callable[[Snapshot], Mapping[str, float]]
"""Measured at the end of every epoch."""


class Probe(ABC):
    """Measured inside an epoch, before the steps that are due; the record has the mean over the epoch.

    It sees the bilevel problem that an architecture step would see there, and changes nothing. When it is due is a
    function of the step's number, so that a resumed search measures at the same steps.
    """

    every: int
    """How many steps lie between two measurements, unless :meth:`due` says otherwise."""

    @property
    def difference(self) -> ProductKind | None:
        """The kind of differences of gradients that it takes; None where it takes none."""
        return None

    def due(self, index: int, steps: int) -> bool:
        """Tell whether to measure before step ``index`` of the search, whose epochs have so many steps."""
        return index % self.every == 0

    @abstractmethod
    def __call__(self, point: EvaluationPoint) -> Mapping[str, float]:
        """Measure at a point of the search."""
