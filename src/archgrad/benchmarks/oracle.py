"""The accuracy that the current architecture is known to reach, as a diagnostic of a search.

A measure names the data set, the images and the training that its numbers are of: ``oracle_cifar10_test_200ep`` is the
accuracy on the test images of CIFAR-10 after 200 epochs. Numbers of two kinds never go by one name.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from archgrad.benchmarks.nasbench101 import CellTable
from archgrad.benchmarks.nasbench101.table import EPOCHS
from archgrad.benchmarks.nasbench201 import DATASETS, AccuracyTable
from archgrad.diagnostics import Diagnostic, Snapshot
from archgrad.errors import UserError
from archgrad.warn_once import warn_once

__all__ = ["cell_oracle", "oracle", "oracle_measure"]

_logger = logging.getLogger(__name__)


def oracle_measure(dataset: str, label: str, quantity: str = "oracle") -> str:
    """Return the name of a measure.

    >>> oracle_measure("cifar10", "test_200ep")
    'oracle_cifar10_test_200ep'
    """
    return f"{quantity}_{dataset}_{label}"


def oracle(table: AccuracyTable, datasets: Sequence[str] = DATASETS) -> Diagnostic:
    """Look the current cell up at the end of every epoch: ``oracle_cifar10_test_200ep`` and so on."""

    def look_up(snapshot: Snapshot) -> dict[str, float]:
        if snapshot.undecided:
            return {}
        accuracies = table.query(snapshot.genotype)
        return {oracle_measure(dataset, table.label): round(accuracies[dataset], 4) for dataset in datasets}

    return look_up


def cell_oracle(table: CellTable, space: int) -> Diagnostic:
    """Look the current cell of a NAS-Bench-1Shot1 space up at the end of every epoch.

    ``oracle_cifar10_test_108ep`` and ``oracle_cifar10_valid_108ep`` are the mean test and validation accuracy after 108
    epochs, ``regret_cifar10_test_108ep`` and ``regret_cifar10_valid_108ep`` the mean errors minus those of the space's
    optimum, all in per cent. An epoch that has decided nothing, or whose cell is not in the table, has none of them.
    """
    table.check_epochs(EPOCHS)
    optimum = table.space_optimum(space)

    def look_up(snapshot: Snapshot) -> dict[str, float]:
        if snapshot.undecided:
            return {}
        try:
            record = table.find(snapshot.genotype)
        except UserError as error:  # the index was damaged or deleted while the search went on
            warn_once(_logger, "no oracle accuracy from now on: %s", error)
            return {}
        if record is None:
            warn_once(_logger, "%s lacks cells that this search comes across; those have no oracle.", table.source)
            return {}
        regret = optimum.regret(record)
        test, valid = f"test_{EPOCHS}ep", f"valid_{EPOCHS}ep"
        found = {
            oracle_measure("cifar10", test): record.test,
            oracle_measure("cifar10", valid): record.valid,
            oracle_measure("cifar10", test, "regret"): regret["test"],
            oracle_measure("cifar10", valid, "regret"): regret["valid"],
        }
        return {name: round(value, 4) for name, value in found.items()}

    return look_up
