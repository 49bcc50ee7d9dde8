"""The entropy of the architecture as a term of the outer loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from archgrad.regularizers.base import OuterStep, Regularizer
from archgrad.spaces import DecisionBlock

__all__ = ["EntropyTerm"]


@dataclass(frozen=True)
class EntropyTerm(Regularizer):
    """L2 + weight · mean over rows of −Σ p·log p: a positive weight favors decisions, a negative one even mixtures.

    A choice of probability 0 adds nothing and gets no gradient.
    """

    needs_simplex: ClassVar[bool] = True

    weight: float = 0.1

    def outer_term(self, step: OuterStep) -> Tensor:
        """Return the weighted mean entropy in nats."""
        rows = [_entropy(step.probabilities[block.name], block).flatten() for block in step.blocks]
        return self.weight * torch.cat(rows).mean()


def _entropy(probabilities: Tensor, block: DecisionBlock) -> Tensor:
    """Return −Σ p·log p of each row over its real choices; at p = 0 its derivative is set to 0."""
    counted = block.mask_on(probabilities.device) & (probabilities > 0)
    logs = probabilities.where(counted, torch.ones_like(probabilities)).log()
    return -(probabilities * logs).sum(-1)
