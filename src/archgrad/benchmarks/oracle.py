"""The accuracy that the current architecture is known to reach, as a callback of a search.

A measure names the data set, the images and the training that its numbers are of: ``oracle_cifar10_test_200ep`` is the
accuracy on the test images of CIFAR-10 after 200 epochs. Numbers of two kinds never go by one name.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from archgrad.benchmarks.nasbench101 import CellTable
from archgrad.benchmarks.nasbench101.table import EPOCHS, Optimum
from archgrad.benchmarks.nasbench201 import DATASETS, AccuracyTable
from archgrad.callbacks import Callback, Measures, Search
from archgrad.diagnostics import Snapshot
from archgrad.errors import UserError
from archgrad.notices import warn_once

__all__ = ["CellOracle", "Oracle", "oracle_measure"]

_logger = logging.getLogger(__name__)


def oracle_measure(dataset: str, label: str, quantity: str = "oracle") -> str:
    """Return the name of a measure.

    >>> oracle_measure("cifar10", "test_200ep")
    'oracle_cifar10_test_200ep'
    """
    return f"{quantity}_{dataset}_{label}"


@dataclass(frozen=True, eq=False)
class Oracle(Callback):
    """Look the current cell up in a table of NAS-Bench-201 at the end of every epoch: ``oracle_cifar10_test_200ep``."""

    table: AccuracyTable
    datasets: Sequence[str] = DATASETS

    def measure_epoch(self, snapshot: Snapshot, search: Search) -> Measures:
        """Return one accuracy for each data set; none where all choices tie."""
        if snapshot.undecided:
            return {}
        accuracies, label = self.table.query(snapshot.genotype), self.table.label
        return {oracle_measure(dataset, label): round(accuracies[dataset], 4) for dataset in self.datasets}


@dataclass(frozen=True, eq=False)
class CellOracle(Callback):
    """Look the current cell of a NAS-Bench-1Shot1 ``space`` up at the end of every epoch.

    ``oracle_cifar10_test_108ep`` and ``oracle_cifar10_valid_108ep`` are the mean test and validation accuracy after 108
    epochs, ``regret_cifar10_test_108ep`` and ``regret_cifar10_valid_108ep`` the mean errors minus those of the space's
    optimum, all in per cent. An epoch that has decided nothing, or whose cell is not in the table, has none of them.
    """

    table: CellTable
    space: int

    def __post_init__(self) -> None:
        self.table.check_epochs(EPOCHS)
        self.optimum  # noqa: B018 - it refuses a space that there is not

    @cached_property
    def optimum(self) -> Optimum:
        """The best cell of the space."""
        return self.table.space_optimum(self.space)

    def measure_epoch(self, snapshot: Snapshot, search: Search) -> Measures:
        """Return accuracies and regrets."""
        if snapshot.undecided:
            return {}
        try:
            record = self.table.find(snapshot.genotype)
        except UserError as error:  # the index was damaged or deleted while the search went on
            warn_once(_logger, "no oracle accuracy from now on: %s", error)
            return {}
        if record is None:
            warn_once(_logger, "%s lacks cells that this search comes across; those have no oracle.", self.table.source)
            return {}
        regret = self.optimum.regret(record)
        test, valid = f"test_{EPOCHS}ep", f"valid_{EPOCHS}ep"
        found = {
            oracle_measure("cifar10", test): record.test,
            oracle_measure("cifar10", valid): record.valid,
            oracle_measure("cifar10", test, "regret"): regret["test"],
            oracle_measure("cifar10", valid, "regret"): regret["valid"],
        }
        return {name: round(value, 4) for name, value in found.items()}
