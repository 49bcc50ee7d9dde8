"""Measures of the architecture at the end of every epoch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from archgrad.callbacks.base import Callback, Measures
from archgrad.callbacks.search import Search
from archgrad.diagnostics import Snapshot, entropy, movement, operations, skip_connections

__all__ = ["ArchitectureMeasures"]


@dataclass(frozen=True)
class ArchitectureMeasures(Callback):
    """Measure entropy, the probability of each operation, the skip connections, and how far α has moved."""

    kind: ClassVar[str] = "architecture"

    def measure_epoch(self, snapshot: Snapshot, search: Search) -> Measures:
        """Return ``entropy``, ``lead``, ``probability_NAME``, ``skips``, ``movement`` and more."""
        return {**entropy(snapshot), **operations(snapshot), **skip_connections(snapshot), **movement(snapshot)}
