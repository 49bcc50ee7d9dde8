"""The softmax relaxation of DARTS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from archgrad.autodiff.tensors import Alpha, Probabilities, check_tensors
from archgrad.parts.fields import NonNegative, checked
from archgrad.relaxations.base import Domain, Relaxation, shapes_of
from archgrad.spaces import DecisionBlock

__all__ = ["Softmax"]


@dataclass(frozen=True)
class Softmax(Relaxation):
    """p[r, o] = exp α[r, o] / Σ exp α[r, ·] over the choices of row r (DARTS, Eq. 2).

    α starts as ``init_scale`` · N(0, 1).
    """

    domain: ClassVar[Domain] = "real"

    init_scale: NonNegative = 1e-3

    @checked
    def init(self, blocks: Sequence[DecisionBlock], generator: torch.Generator) -> Alpha:
        """Draw small random parameters."""
        draws = {block.name: torch.randn(block.shape, generator=generator) for block in blocks}
        return Alpha({block.name: self.init_scale * draws[block.name] * block.mask for block in blocks})

    def probabilities(self, blocks: Sequence[DecisionBlock], alpha: Alpha) -> Probabilities:
        """Normalize each row over the choices it has."""
        check_tensors("alpha", alpha, shapes_of(blocks))
        probabilities = Probabilities({})
        for block in blocks:
            logits = alpha[block.name]
            absent = ~block.mask_on(logits.device)
            probabilities[block.name] = torch.softmax(logits.masked_fill(absent, -torch.inf), dim=-1)
        return probabilities
