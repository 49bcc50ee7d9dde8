"""One operation at a time, with the gradient of its log-probability: the sampled path of DSNAS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from archgrad.relaxations.gumbel import GumbelNoise
from archgrad.spaces import DecisionBlock

__all__ = ["LogProbability"]


@dataclass(frozen=True)
class LogProbability(GumbelNoise):
    """One-hot at a drawn choice s, with the gradient of log p[s] (DSNAS; Hu et al., 2020).

    The weight of s is 1 + log p[s] − ⌊log p[s]⌋, ⌊·⌋ without gradient. So its gradient is a policy gradient whose
    reward is that of the weight, for each edge by itself: ∂L/∂α = ∂L/∂Z[s] · ∂log p[s]/∂α. Only the drawn operation is
    computed. On the simplex, log p[s] depends on α[s] alone, so the gradient has one entry in a row.
    """

    sparse: ClassVar[bool] = True

    def sample(self, block: DecisionBlock, alpha: Tensor, noise: Tensor, progress: float) -> Tensor:
        """Return a one-hot mixture with the derivative of the log-probability of what it has drawn."""
        scores = self.perturbed(block, alpha, noise)
        drawn = scores.detach().argmax(-1, keepdim=True)
        likelihood = scores.gather(-1, drawn)
        return torch.zeros_like(scores).scatter(-1, drawn, 1 + likelihood - likelihood.detach())
