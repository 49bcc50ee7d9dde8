"""The family of relaxations: α → mixture."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from archgrad.autodiff.tensors import Alpha, Mixture, Probabilities
from archgrad.parts.fields import check_fields
from archgrad.spaces import DecisionBlock

__all__ = ["Domain", "Relaxation", "Relaxed", "expand_to_cells", "shapes_of"]

Domain = Literal["real", "simplex"]
"""The domain of α: real numbers, or rows on the probability simplex."""


@dataclass(frozen=True)
class Relaxed:
    """A mixture ``{block: [cells, rows, choices]}``, and the ``active`` entries to compute (None: all).

    With one mixture for each of N images it is ``[cells, N, rows, choices]``; an entry is active for all images or
    none. A block that is missing in ``active`` is computed completely.
    """

    mixture: Mixture
    active: dict[str, Tensor] | None = None


class Relaxation(ABC):
    """α → mixture.

    A relaxation is a pure function of α and of noise, which is drawn once per step: an estimator can evaluate the same
    mixture many times. A ``sampled`` relaxation needs noise; one that ``learns`` depends on α. The rows of its mixture
    sum to one if it is ``on_simplex``; those of a sigmoid of each entry do not. Parts that need that say so by
    ``needs_simplex``.
    """

    sampled: ClassVar[bool] = False
    learns: ClassVar[bool] = True
    on_simplex: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_fields(self, "relaxation.{}")

    @property
    @abstractmethod
    def domain(self) -> Domain:
        """The domain of α; a class variable or a knob of each member."""

    @property
    def sparse(self) -> bool:
        """Whether it skips some operations, different ones from step to step."""
        return False

    @abstractmethod
    def init(self, blocks: Sequence[DecisionBlock], generator: torch.Generator) -> Alpha:
        """Return the initial α ``{block: [rows, choices]}``, zero where a row has no choice."""

    @abstractmethod
    def probabilities(self, blocks: Sequence[DecisionBlock], alpha: Alpha) -> Probabilities:
        """Return the mean mixture ``{block: [rows, choices]}``, differentiable in α; its rows are ``on_simplex``."""

    def noise(self, blocks: Sequence[DecisionBlock], generator: torch.Generator) -> dict[str, Tensor] | None:
        """Draw the noise of one step; None for a deterministic relaxation."""
        return None

    def relax(
        self, blocks: Sequence[DecisionBlock], alpha: Alpha, noise: dict[str, Tensor] | None, progress: float
    ) -> Relaxed:
        """Return the mixture of one step; ``progress`` runs from 0 to 1 over the search."""
        return Relaxed(expand_to_cells(blocks, self.probabilities(blocks, alpha)))


def shapes_of(blocks: Sequence[DecisionBlock]) -> dict[str, tuple[int, ...]]:
    """Return the shape ``(rows, choices)`` of α in each block."""
    return {block.name: block.shape for block in blocks}


def expand_to_cells(blocks: Sequence[DecisionBlock], rows: Probabilities) -> Mixture:
    """Repeat the rows of a block for each of its cells, without copying.

    ``[rows, choices]`` → ``[cells, rows, choices]``, and with one mixture for each of N images
    ``[N, rows, choices]`` → ``[cells, N, rows, choices]``.
    """
    return Mixture({block.name: rows[block.name].expand(block.cells, *rows[block.name].shape) for block in blocks})
