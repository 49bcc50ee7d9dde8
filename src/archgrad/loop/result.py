"""What a search returns."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from archgrad.callbacks import Record
from archgrad.loop.state import nothing_decided
from archgrad.spaces import Genotype
from archgrad.supernet import Supernet
from archgrad.tensors import Alpha

__all__ = ["SearchResult"]


@dataclass(frozen=True, eq=False)
class SearchResult:
    """What a search found.

    ``mixture`` is ``{block: [cells, rows, choices]}`` as the supernet takes it, ``alpha`` the parameters behind it,
    ``history`` one record per epoch. ``stopped`` says why a search ended early, with the genotype of an earlier epoch;
    mixture, α and supernet are those it ended with. ``undecided`` says that all choices tie exactly, so
    that the genotype is the first in the order of choices and nothing more.
    """

    genotype: Genotype
    history: tuple[Record, ...]
    mixture: dict[str, Tensor]
    alpha: Alpha
    supernet: Supernet
    seconds: float
    stopped: str | None = None

    @property
    def undecided(self) -> bool:
        """Whether nothing has chosen the genotype."""
        return nothing_decided(self.history, self.stopped)
