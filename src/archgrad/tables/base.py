"""The family of accuracy tables: which spaces and data sets a table answers for, and what it says of a cell."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from archgrad.callbacks import Callback
from archgrad.spaces import Genotype, SearchSpace
from archgrad.spaces.nasbench101 import Module

__all__ = ["Answer", "Cell", "Oracle", "Progress", "Table", "oracle_measure"]

Cell = Genotype | Module

Progress = Callable[[int, int], object]
"""Gets the bytes read so far and their total, now and then."""


class Answer(NamedTuple):
    """What a table says of a cell: plain values for JSON, and the same as lines of text."""

    content: dict[str, Any]
    text: str


class Oracle(NamedTuple):
    """What a search measures of its current cell in a table; ``source`` says in words where the numbers are from."""

    callbacks: tuple[Callback, ...]
    source: str


class Table(ABC):
    """A published table of trained architectures. To add one, write a subclass and name it in ``TABLES``."""

    title: ClassVar[str]
    """The name in sentences, such as NAS-Bench-201."""
    spaces: ClassVar[tuple[str, ...]]
    """The names of the spaces whose cells are in the table."""
    datasets: ClassVar[tuple[str, ...]]
    suffixes: ClassVar[tuple[str, ...]]
    """How the names of its files end, in lower case; the first is the one to give."""

    @abstractmethod
    def is_available(self) -> bool:
        """Tell whether the table is on this machine."""

    @abstractmethod
    def has_form_of(self, cell: Cell) -> bool:
        """Tell whether a cell looks like one of this table, by the kind of its description alone."""

    @abstractmethod
    def oracle(self, space: SearchSpace, datasets: Sequence[str], progress: Progress | None = None) -> Oracle | None:
        """Return what to measure in every epoch of a search in one of ``spaces``; None without a table."""

    @abstractmethod
    def look_up(self, cell: Cell, path: Path | None, progress: Progress | None = None) -> Answer:
        """Return what the table in ``path``, or the one on this machine, says of a cell."""

    @abstractmethod
    def best(self, path: Path, progress: Progress | None = None) -> Answer:
        """Return what the table says of its best cell by test accuracy on CIFAR-10."""


def oracle_measure(dataset: str, label: str, quantity: str = "oracle") -> str:
    """Return the name of a measure: the data set, the images and the training that its numbers are of.

    ``oracle_cifar10_test_200ep`` is the accuracy on the test images of CIFAR-10 after 200 epochs. Numbers of two kinds
    never share a name.

    >>> oracle_measure("cifar10", "test_200ep")
    'oracle_cifar10_test_200ep'
    """
    return f"{quantity}_{dataset}_{label}"
