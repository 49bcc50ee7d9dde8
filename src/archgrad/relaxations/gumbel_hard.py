"""One operation at a time: the straight-through Gumbel softmax of GDAS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from archgrad.parts.fields import Positive
from archgrad.relaxations.gumbel import Gumbel
from archgrad.spaces import DecisionBlock

__all__ = ["GumbelHard"]


@dataclass(frozen=True)
class GumbelHard(Gumbel):
    """One-hot at argmax(log p + G), with the gradient of softmax((log p + G)/τ) (GDAS; Dong & Yang, 2019).

    Only the drawn operation is computed, and the gradient flows through its weight alone. The published code also adds
    the other weights, which are 0, to every entry of an edge's output, so they receive the sum of its gradient; the
    paper has no such term. τ goes linearly from 10 to 0.1.
    """

    sparse: ClassVar[bool] = True

    tau: tuple[Positive, Positive] = (10.0, 0.1)

    def sample(self, block: DecisionBlock, alpha: Tensor, noise: Tensor, progress: float) -> Tensor:
        """Return hard + (soft − detached soft): exactly one-hot, with the derivative of soft."""
        scores = self.perturbed(block, alpha, noise)
        soft = torch.softmax(scores / self.temperature(progress), dim=-1)
        hard = torch.zeros_like(soft).scatter(-1, scores.detach().argmax(-1, keepdim=True), 1.0)
        return hard + (soft - soft.detach())
