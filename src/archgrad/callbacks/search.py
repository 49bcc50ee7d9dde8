"""What a callback may read of a search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from archgrad.spaces import Genotype
from archgrad.supernet import Supernet
from archgrad.tensors import Alpha, Weights

__all__ = ["Record", "Search"]

Record = dict[str, Any]
"""One line of ``metrics.jsonl``: plain numbers and strings."""


class Search(Protocol):
    """A search as callbacks see it; they change nothing of it."""

    @property
    def epochs(self) -> int:
        """How many epochs the search has."""

    @property
    def steps(self) -> int:
        """How many steps an epoch has."""

    @property
    def epoch(self) -> int:
        """How many epochs are done."""

    @property
    def step(self) -> int:
        """How many steps of the present epoch are done."""

    @property
    def index(self) -> int:
        """How many steps are done since the beginning."""

    @property
    def progress(self) -> float:
        """How much of the search is done, from 0 to 1."""

    @property
    def complete(self) -> bool:
        """Whether no step is left to take."""

    @property
    def warmup_epochs(self) -> int:
        """How many epochs train the weights alone."""

    @property
    def budget_line(self) -> str:
        """One line that says what the learning rate of α is, and why."""

    @property
    def supernet(self) -> Supernet:
        """The network that is searched."""

    @property
    def weights(self) -> Weights:
        """Its parameters by name."""

    @property
    def alpha(self) -> Alpha:
        """The architecture parameters."""

    @property
    def genotype(self) -> Genotype:
        """The architecture that was derived last."""

    @property
    def history(self) -> Sequence[Record]:
        """One record for each epoch."""

    @property
    def seconds(self) -> float:
        """The time that the steps took."""

    @property
    def stopped(self) -> str | None:
        """Why the search has ended early; None if it has not."""

    @property
    def switched(self) -> tuple[int, int] | None:
        """From which epoch the search went back to which; None if it did not."""

    def tensors(self) -> dict[str, Any]:
        """Return everything that a checkpoint holds."""
