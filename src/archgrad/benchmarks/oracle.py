"""The accuracy that the current architecture is known to reach, as a diagnostic of a search."""

from __future__ import annotations

from archgrad.benchmarks.nasbench201 import AccuracyTable
from archgrad.diagnostics import Diagnostic, Snapshot

__all__ = ["oracle"]


def oracle(table: AccuracyTable) -> Diagnostic:
    """Look the current cell up at the end of every epoch: ``oracle_cifar10`` and so on."""

    def look_up(snapshot: Snapshot) -> dict[str, float]:
        accuracies = table.query(snapshot.genotype)
        return {f"oracle_{dataset}": round(accuracy, 4) for dataset, accuracy in accuracies.items()}

    return look_up
