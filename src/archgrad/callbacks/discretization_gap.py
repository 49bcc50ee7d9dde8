"""What the supernet loses of its main metric when its mixture becomes one architecture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from archgrad.callbacks.base import Callback, Measures, Need
from archgrad.diagnostics import Snapshot, measure_discretization
from archgrad.parts.fields import Count

__all__ = ["DiscretizationGap"]


@dataclass(frozen=True)
class DiscretizationGap(Callback):
    """Measure the main metric of the shared weights with the mixture and with the architecture (GAEA, Section 4.1).

    The less they differ, the less the relaxation has misled the search. No weight is retrained.
    """

    kind: ClassVar[str] = "discretization-gap"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.EVALUATION})

    batches: Count = 32

    def measure_end(self, snapshot: Snapshot) -> Measures:
        """Return ``mixture_accuracy`` and ``discrete_accuracy`` in per cent; nothing where all choices tie."""
        return {} if snapshot.undecided else measure_discretization(snapshot, self.batches)
