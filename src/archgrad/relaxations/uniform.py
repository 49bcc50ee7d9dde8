"""One operation at a time, all equally likely: random search with weight sharing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from archgrad.autodiff.tensors import Alpha, Probabilities, check_tensors
from archgrad.parts.fields import checked
from archgrad.relaxations.base import Domain, shapes_of
from archgrad.relaxations.sampled import Sampled
from archgrad.relaxations.simplex import Simplex
from archgrad.spaces import DecisionBlock

__all__ = ["Uniform"]


@dataclass(frozen=True)
class Uniform(Sampled):
    """Draw one choice per row, all with the same probability (RandomNAS; Li & Talwalkar, 2019).

    α is zero and has no effect; use it with ``arch_optimizers.Fixed()``.
    """

    domain: ClassVar[Domain] = "real"
    learns: ClassVar[bool] = False
    sparse: ClassVar[bool] = True

    per_cell: bool = False

    @checked
    def init(self, blocks: Sequence[DecisionBlock], generator: torch.Generator) -> Alpha:
        """Return zeros."""
        return Alpha({block.name: torch.zeros(block.shape) for block in blocks})

    def probabilities(self, blocks: Sequence[DecisionBlock], alpha: Alpha) -> Probabilities:
        """Return uniform rows."""
        check_tensors("alpha", alpha, shapes_of(blocks))
        start = Simplex().init(blocks, torch.Generator())
        return Probabilities({block.name: start[block.name].to(alpha[block.name]) for block in blocks})

    def draw(self, block: DecisionBlock, generator: torch.Generator) -> Tensor:
        """Draw a score for every choice of every row."""
        return torch.rand((self.copies(block), *block.shape), generator=generator, device=generator.device)

    def sample(self, block: DecisionBlock, alpha: Tensor, noise: Tensor, progress: float) -> Tensor:
        """Take the choice with the largest score."""
        scores = noise.masked_fill(~block.mask_on(noise.device), -1.0)
        return torch.zeros_like(scores).scatter(-1, scores.argmax(-1, keepdim=True), 1.0).to(alpha)
