"""Measures of the architecture: at the end of every epoch, and of the one that the search returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from archgrad.callbacks.base import Callback, Measures
from archgrad.callbacks.search import SearchView
from archgrad.diagnostics import Snapshot, entropy, measure_discretization, movement, operations, skip_connections
from archgrad.parts.fields import Count

__all__ = ["ArchitectureMeasures", "DiscretizationGap"]


@dataclass(frozen=True)
class ArchitectureMeasures(Callback):
    """Measure entropy, the probability of each operation, the skip connections, and how far α has moved."""

    kind: ClassVar[str] = "architecture"

    def measure_epoch(self, snapshot: Snapshot, search: SearchView) -> Measures:
        """Return ``entropy``, ``lead``, ``probability_NAME``, ``skips``, ``movement`` and more."""
        return {**entropy(snapshot), **operations(snapshot), **skip_connections(snapshot), **movement(snapshot)}


@dataclass(frozen=True)
class DiscretizationGap(Callback):
    """Measure the main metric of the shared weights with the mixture and with the architecture (GAEA, Section 4.1).

    The less they differ, the less the relaxation has misled the search. No weight is retrained.
    """

    kind: ClassVar[str] = "discretization-gap"

    batches: Count = 32

    def measure_end(self, snapshot: Snapshot) -> Measures:
        """Return ``mixture_accuracy`` and ``discrete_accuracy`` in per cent; nothing where all choices tie."""
        return {} if snapshot.undecided else measure_discretization(snapshot, self.batches)
