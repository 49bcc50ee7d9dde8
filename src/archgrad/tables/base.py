"""The family of accuracy tables: the spaces and data sets of a table, and its answers about a cell."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from archgrad.callbacks import Callback, Measures, SearchView
from archgrad.diagnostics import Snapshot
from archgrad.spaces import Genotype, SearchSpace
from archgrad.spaces.nasbench101 import Module

__all__ = [
    "Answer",
    "Cell",
    "CellLookup",
    "Oracle",
    "Progress",
    "Table",
    "oracle_measure",
]

Cell = Genotype | Module

Progress = Callable[[int, int], object]
"""Called now and then with the bytes read so far and their total."""


class Answer(NamedTuple):
    """A table's answer about a cell: plain values for JSON, and the same as text."""

    content: dict[str, Any]
    text: str


@dataclass(frozen=True, eq=False)
class CellLookup(Callback):
    """Look up the current cell in a table at the end of every epoch; nothing while all choices tie.

    ``measures_of`` returns what the table knows of a cell, by the names of measures.
    """

    measures_of: Callable[[Genotype], Measures]

    def measure_epoch(self, snapshot: Snapshot, search: SearchView) -> Measures:
        """Return the measures of the current cell."""
        return {} if snapshot.undecided else self.measures_of(snapshot.genotype)


class Oracle(NamedTuple):
    """The callbacks that look up a search's current cell in a table; ``source`` says where the numbers come from."""

    callbacks: tuple[CellLookup, ...]
    source: str


class Table(ABC):
    """A published table of trained architectures. To add one, write a subclass and name it in ``TABLES``."""

    title: ClassVar[str]
    """The name in sentences, such as NAS-Bench-201."""
    spaces: ClassVar[tuple[str, ...]]
    """The names of the spaces whose cells are in the table."""
    datasets: ClassVar[tuple[str, ...]]
    suffixes: ClassVar[tuple[str, ...]]
    """The suffixes of its files, in lower case; the usual one first."""

    @abstractmethod
    def is_available(self) -> bool:
        """Tell whether the table is on this machine."""

    @abstractmethod
    def has_form_of(self, cell: Cell) -> bool:
        """Tell whether a cell's description has the form of this table's cells."""

    @abstractmethod
    def oracle(self, space: SearchSpace, datasets: Sequence[str]) -> Oracle | None:
        """Return the oracle for a search in one of ``spaces``; None if the table is not available."""

    @abstractmethod
    def look_up(self, cell: Cell, path: Path | None) -> Answer:
        """Look up a cell in the table at ``path``, by default the one on this machine."""

    def values(self, space: SearchSpace, measure: str) -> tuple[float, ...] | None:
        """Return a measure of all architectures of a space; None if the table does not have all of them."""
        return None

    def accuracies(self, genotype: Genotype) -> dict[str, float]:
        """Return the accuracies of a cell on all data sets, by the names of their measures; nothing where unknown."""
        return {}

    @abstractmethod
    def best(self, path: Path) -> Answer:
        """Return the answer about the table's best cell by test accuracy on CIFAR-10."""


def oracle_measure(dataset: str, label: str, quantity: str = "oracle") -> str:
    """Return the name of a measure, from its data set, images and training.

    ``oracle_cifar10_test_200ep`` is the accuracy on the test images of CIFAR-10 after 200 epochs. Different kinds of
    numbers never share a name.

    >>> oracle_measure("cifar10", "test_200ep")
    'oracle_cifar10_test_200ep'
    """
    return f"{quantity}_{dataset}_{label}"
