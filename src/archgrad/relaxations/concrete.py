"""The concrete distribution of SNAS: a random mixture of all operations that becomes sharper over the search."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from archgrad.parts.fields import Positive
from archgrad.relaxations.gumbel import Gumbel
from archgrad.spaces import DecisionBlock

__all__ = ["Concrete"]


@dataclass(frozen=True)
class Concrete(Gumbel):
    """softmax((log p + G)/τ), dense, and one-hot as τ → 0 (SNAS; Xie et al., 2019).

    SNAS anneals τ towards 0 but gives no schedule; archgrad goes linearly from 1 to 0.1.
    """

    tau: tuple[Positive, Positive] = (1.0, 0.1)

    def sample(self, block: DecisionBlock, alpha: Tensor, noise: Tensor, progress: float) -> Tensor:
        """Return the softmax."""
        return torch.softmax(self.perturbed(block, alpha, noise) / self.temperature(progress), dim=-1)
