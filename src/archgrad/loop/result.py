"""What a search returns."""

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
    """What a search found.

    ``mixture`` is ``{block: [cells, rows, choices]}`` as the supernet takes it, ``alpha`` the parameters behind it,
    ``history`` one record per epoch. ``method`` is the one that searched, and ``epochs`` how many epochs it was given
    (each stage of a search in stages). ``budget`` says in a line what α's learning rate was, and why. ``stopped``
    says why a search ended early, with the genotype of an earlier epoch; mixture, α and supernet are those it ended
    with.
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
        """Whether all choices tie exactly: then the genotype is the first in the order of choices, nothing more."""
        return nothing_decided(self.history, self.stopped)

    @cached_property
    def diagnosis(self) -> Diagnosis:
        """How healthy the search was, by its history; the advice names cures that its method lacks."""
        return diagnosed(self.history, self.epochs, self.method)

    def __repr__(self) -> str:
        found = "no genotype" if self.undecided else self.genotype
        epochs = f"{len(self.history)} epochs" if len(self.history) != 1 else "1 epoch"
        return f"<SearchResult {found}, diagnosis {self.diagnosis.verdict}, {epochs}, {self.seconds:.1f} seconds>"
