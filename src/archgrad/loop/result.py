"""The result of a search."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from archgrad.callbacks import Record
from archgrad.diagnostics import Diagnosis
from archgrad.loop.state import nothing_decided
from archgrad.method import Method
from archgrad.reactions import diagnosed
from archgrad.spaces import Genotype
from archgrad.supernet import Supernet
from archgrad.tensors import Alpha

__all__ = ["SearchResult"]


@dataclass(frozen=True, eq=False, repr=False)
class SearchResult:
    """The genotype that a search found, its last state and its history.

    ``mixture`` is the input of the supernet, ``{block: [cells, rows, choices]}``, and ``alpha`` the parameters behind
    it. ``history`` has one record per epoch. ``epochs`` is the planned number (of each stage, in a search in stages).
    ``budget`` says in one line what α's learning rate was, and why. ``stopped`` says why a search ended early; then
    the genotype is that of an earlier epoch, but mixture, α and supernet are the last ones.
    """

    genotype: Genotype
    history: tuple[Record, ...]
    mixture: dict[str, Tensor]
    alpha: Alpha
    supernet: Supernet
    seconds: float
    method: Method
    epochs: int
    budget: str
    stopped: str | None = None

    @property
    def undecided(self) -> bool:
        """Whether all choices tie exactly, so that the genotype is just the first in the order of choices."""
        return nothing_decided(self.history, self.stopped)

    @cached_property
    def diagnosis(self) -> Diagnosis:
        """The health of the search by its history; the advice names cures that its method lacks."""
        return diagnosed(self.history, self.epochs, self.method)

    def __repr__(self) -> str:
        found = "no genotype" if self.undecided else self.genotype
        epochs = f"{len(self.history)} epochs" if len(self.history) != 1 else "1 epoch"
        return f"<SearchResult {found}, diagnosis {self.diagnosis.verdict}, {epochs}, {self.seconds:.1f} seconds>"
