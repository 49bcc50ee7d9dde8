"""The accuracy that the current architecture is known to reach, as a diagnostic of a search."""

from __future__ import annotations

import logging

from archgrad.benchmarks.nasbench101 import CellTable
from archgrad.benchmarks.nasbench101.table import EPOCHS
from archgrad.benchmarks.nasbench201 import AccuracyTable
from archgrad.diagnostics import Diagnostic, Snapshot
from archgrad.errors import UserError
from archgrad.notices import warn_once

__all__ = ["cell_oracle", "oracle"]

_logger = logging.getLogger(__name__)


def oracle(table: AccuracyTable) -> Diagnostic:
    """Look the current cell up at the end of every epoch: ``oracle_cifar10`` and so on."""

    def look_up(snapshot: Snapshot) -> dict[str, float]:
        accuracies = table.query(snapshot.genotype)
        return {f"oracle_{dataset}": round(accuracy, 4) for dataset, accuracy in accuracies.items()}

    return look_up


def cell_oracle(table: CellTable, space: int) -> Diagnostic:
    """Look the current cell of a NAS-Bench-1Shot1 space up at the end of every epoch.

    ``oracle_cifar10`` and ``oracle_cifar10_valid`` are the mean test and validation accuracy after 108 epochs,
    ``regret`` and ``regret_valid`` the mean errors minus those of the space's optimum, all in per cent. An epoch whose
    cell is not in the table has none of them.
    """
    table.check_epochs(EPOCHS)
    optimum = table.space_optimum(space)

    def look_up(snapshot: Snapshot) -> dict[str, float]:
        try:
            record = table.find(snapshot.genotype)
        except UserError as error:  # the index was damaged or deleted while the search went on
            warn_once(_logger, "no oracle accuracy from now on: %s", error)
            return {}
        if record is None:
            warn_once(_logger, "%s lacks cells that this search comes across; those have no oracle.", table.source)
            return {}
        regret = optimum.regret(record)
        found = {
            "oracle_cifar10": record.test,
            "oracle_cifar10_valid": record.valid,
            "regret": regret["test"],
            "regret_valid": regret["valid"],
        }
        return {name: round(value, 4) for name, value in found.items()}

    return look_up
