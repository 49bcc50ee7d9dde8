"""The view of a search that callbacks have."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from archgrad.autodiff.tensors import Alpha, Weights
from archgrad.spaces import Genotype
from archgrad.supernet import Supernet
from archgrad.tasks import MetricInfo

__all__ = ["Record", "SearchView"]

Record = dict[str, Any]
"""One line of ``metrics.jsonl``: plain numbers and strings."""


class SearchView(Protocol):
    """A search as callbacks see it; they must not change it."""

    folder: Path | None
    """The run directory, or that of the present stage; None if the search writes none."""
    epochs: int
    """The number of epochs of the search."""
    steps: int
    """The number of steps of an epoch."""
    epoch: int
    """The number of epochs done."""
    step: int
    """The number of steps done in the present epoch."""

    @property
    def index(self) -> int:
        """The number of steps done since the beginning."""

    @property
    def progress(self) -> float:
        """The share of the search that is done, from 0 to 1."""

    @property
    def complete(self) -> bool:
        """Whether no step is left."""

    warmup_epochs: int
    """The number of first epochs that train only the weights."""
    budget_line: str
    """One line that says what the learning rate of α is, and why."""
    metric: MetricInfo
    """The main metric of the task: its name, direction and unit."""
    supernet: Supernet
    """The supernet."""

    @property
    def weights(self) -> Weights:
        """The parameters of the supernet by name."""

    alpha: Alpha
    """The architecture parameters."""
    genotype: Genotype
    """The architecture of the last epoch."""
    history: list[Record]
    """One record for each epoch."""
    seconds: float
    """The time that the steps took."""
    stopped: str | None
    """Why the search ended early, None if it did not."""
    switched: tuple[int, int] | None
    """From which epoch the search went back to which; None if it did not."""

    def tensors(self) -> dict[str, Any]:
        """Return everything that a checkpoint holds."""
