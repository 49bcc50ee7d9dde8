"""The family of relaxations: from architecture parameters to the mixture that a supernet computes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from archgrad.spaces import DecisionBlock
from archgrad.tensors import Alpha, Mixture, Probabilities

__all__ = ["Domain", "Relaxation", "Relaxed", "expand_to_cells"]

Domain = Literal["real", "simplex"]
"""Where architecture parameters live: anywhere, or each row on the probability simplex."""


@dataclass(frozen=True)
class Relaxed:
    """A mixture ``{block: [cells, rows, choices]}``, and which of its entries are to be computed (None: all).

    With one mixture for each of N images it is ``[cells, N, rows, choices]``, and an entry is computed for all or none.
    A block that ``active`` leaves out is computed as a whole.
    """

    mixture: Mixture
    active: dict[str, Tensor] | None = None


class Relaxation(ABC):
    """α → mixture.

    A relaxation is a pure function of α and of noise that is drawn beforehand, once per step, so that an estimator may
    evaluate the same mixture many times. One that is ``sampled`` needs such noise; one that ``learns`` depends on α.
    """

    sampled: ClassVar[bool] = False
    learns: ClassVar[bool] = True

    @property
    @abstractmethod
    def domain(self) -> Domain:
        """Where α lives; a class variable or a knob of each member."""

    @property
    def sparse(self) -> bool:
        """Whether it leaves operations out, others from step to step."""
        return False

    @abstractmethod
    def init(self, blocks: Sequence[DecisionBlock], generator: torch.Generator) -> Alpha:
        """Return the first architecture parameters ``{block: [rows, choices]}``, zero where a row has no choice."""

    @abstractmethod
    def probabilities(self, blocks: Sequence[DecisionBlock], alpha: Alpha) -> Probabilities:
        """Return what α says on average, ``{block: [rows, choices]}``: rows on the simplex, differentiable in α."""

    def noise(self, blocks: Sequence[DecisionBlock], generator: torch.Generator) -> dict[str, Tensor] | None:
        """Draw what a sampled relaxation needs for one step; None for a deterministic one."""
        return None

    def relax(
        self, blocks: Sequence[DecisionBlock], alpha: Alpha, noise: dict[str, Tensor] | None, progress: float
    ) -> Relaxed:
        """Return the mixture of one step; ``progress`` runs from 0 to 1 over the search."""
        return Relaxed(expand_to_cells(blocks, self.probabilities(blocks, alpha)))


def expand_to_cells(blocks: Sequence[DecisionBlock], rows: Probabilities) -> Mixture:
    """Give every cell of a block a view of the same rows.

    ``[rows, choices]`` → ``[cells, rows, choices]``, and with one mixture for each of N images
    ``[N, rows, choices]`` → ``[cells, N, rows, choices]``.
    """
    return Mixture({block.name: rows[block.name].expand(block.cells, *rows[block.name].shape) for block in blocks})
