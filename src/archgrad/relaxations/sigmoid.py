"""The sigmoid relaxation of FairDARTS: every operation by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from archgrad.autodiff.tensors import Alpha, Probabilities, check_tensors
from archgrad.parts.fields import NonNegative, checked
from archgrad.relaxations.base import Domain, Relaxation, shapes_of
from archgrad.relaxations.softmax import Softmax
from archgrad.spaces import DecisionBlock

__all__ = ["Sigmoid"]


@dataclass(frozen=True)
class Sigmoid(Relaxation):
    """p[r, o] = σ(α[r, o]): operations do not compete, and rows do not sum to one (FairDARTS; Chu et al., 2020).

    α starts as ``init_scale`` · N(0, 1), so every weight is about ½.
    """

    domain: ClassVar[Domain] = "real"
    on_simplex: ClassVar[bool] = False

    init_scale: NonNegative = 1e-3

    @checked
    def init(self, blocks: Sequence[DecisionBlock], generator: torch.Generator) -> Alpha:
        """Draw small random parameters."""
        return Softmax(self.init_scale).init(blocks, generator)

    def probabilities(self, blocks: Sequence[DecisionBlock], alpha: Alpha) -> Probabilities:
        """Return the sigmoid of each entry, 0 where a row has no choice."""
        check_tensors("alpha", alpha, shapes_of(blocks))
        return Probabilities(
            {block.name: alpha[block.name].sigmoid() * block.mask_on(alpha[block.name].device) for block in blocks}
        )
