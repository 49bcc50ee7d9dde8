"""What a diagnostic sees, and what it gives: named numbers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor

from archgrad.discretizers import Judge
from archgrad.hypergradients import Point
from archgrad.spaces import Genotype, SearchSpace

__all__ = ["Diagnostic", "Probe", "Snapshot"]


@dataclass(frozen=True)
class Snapshot:
    """The search between two epochs: probabilities ``{block: [rows, choices]}`` and the genotype they give.

    ``judge`` tells the accuracy of the shared weights with any mixture; ``last`` says that the search is complete.
    """

    space: SearchSpace
    probabilities: Mapping[str, Tensor]
    genotype: Genotype
    judge: Judge | None = None
    last: bool = False


Diagnostic = Callable[[Snapshot], Mapping[str, float]]
"""Measured at the end of every epoch."""


class Probe(ABC):
    """Measured inside an epoch, before every ``every``-th step; the record has the mean over the epoch.

    It sees the bilevel problem that an architecture step would see there, and changes nothing.
    """

    every: int

    @abstractmethod
    def __call__(self, point: Point) -> Mapping[str, float]:
        """Measure at a point of the search."""
