"""One-hot samples with a gradient that is accurate to second order: ReinMax."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from archgrad.relaxations.gumbel import Gumbel
from archgrad.spaces import DecisionBlock

__all__ = ["ReinMax"]


@dataclass(frozen=True)
class ReinMax(Gumbel):
    """One-hot at a drawn choice D, with the gradient 2·J(π₁)ᵀv − ½·J(π₀)ᵀv of the logits (Liu et al., 2023).

    v is the gradient of the mixture at D, J(π) = diag π − ππᵀ, π₀ = p, and π₁ = (D + softmax(log p / τ))/2. At τ = 1
    its mean is the exact gradient of E[L] wherever L is quadratic in the row; that of the straight-through estimate is
    J(π₀)ᵀv, exact only where L is linear. v is needed of every choice, so all operations are computed, those that are
    not drawn with weight 0.
    """

    def sample(self, block: DecisionBlock, alpha: Tensor, noise: Tensor, progress: float) -> Tensor:
        """Return the one-hot sample plus a function of α that is 0 and has this derivative."""
        logits = self.perturbed(block, alpha, torch.zeros_like(noise))
        drawn = self.perturbed(block, alpha, noise).detach().argmax(-1, keepdim=True)
        hard = torch.zeros_like(logits).scatter(-1, drawn, 1.0)
        with torch.no_grad():
            first = logits.softmax(-1)
            second = (hard + (logits / self.temperature(progress)).softmax(-1)) / 2
        finite = logits.masked_fill(logits == -torch.inf, 0.0)
        slope = 2 * _tangent(second, finite) - _tangent(first, finite) / 2
        return hard + (slope - slope.detach())


def _tangent(weights: Tensor, logits: Tensor) -> Tensor:
    """Return π ⊙ (z − ⟨π, z⟩), whose Jacobian in the logits z is that of the softmax where it is π."""
    return weights * (logits - (weights * logits).sum(-1, keepdim=True))
