"""Adam and AdamW on the inner problem, differentiable step by step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch
from torch import Tensor

from archgrad.autodiff.tensors import Weights
from archgrad.autodiff.vectors import added, scaled
from archgrad.bilevel.descent import InnerDescent, PulledBack
from archgrad.parts.fields import NonNegative, Positive

__all__ = ["AdamDescent", "Moments", "moments_of"]


class Moments(NamedTuple):
    """The two moments of one weight in Adam, and how many steps it has taken."""

    first: Tensor
    second: Tensor
    steps: float = 0.0


@dataclass(frozen=True, eq=False)
class AdamDescent(InnerDescent):
    """Adam (Kingma & Ba, 2015) as PyTorch defines it, with its present moments; AdamW if the decay is ``decoupled``.

    g̃ = g + λw,  m' = β₁m + (1 − β₁)g̃,  u' = β₂u + (1 − β₂)g̃²,  w' = w − γ·m̂/(√û + ε), where m̂ = m'/(1 − β₁ᵗ) and
    û = u'/(1 − β₂ᵗ). AdamW has g̃ = g and (1 − γλ)·w in the place of w (Loshchilov & Hutter, 2019). ``moments`` lacks
    the weights that have not moved.

    A weight that never had a gradient (u' = 0) counts as one that does not move: the derivative there is 1/ε, by which
    nothing is multiplied but zero or rounding.
    """

    lr: NonNegative
    betas: tuple[float, float] = (0.9, 0.999)
    eps: Positive = 1e-8
    weight_decay: NonNegative = 0.0
    decoupled: bool = False
    moments: Mapping[str, Moments] = field(default_factory=dict)

    def step(self, weights: Weights, gradient: Weights) -> tuple[Weights, AdamDescent]:
        """Return the weights after one step, and the descent that continues from there."""
        moments = self._moved(weights, gradient)
        start = scaled(weights, 1 - self.lr * self.weight_decay) if self.decoupled else weights
        after = {name: start[name] - self._rate(one) * one.first / self._size(one) for name, one in moments.items()}
        return Weights(after), replace(self, moments=moments)

    def pull_back(
        self, weights: Weights, gradient: Weights, of_weights: Weights, of_state: Mapping[str, Moments] | None = None
    ) -> PulledBack:
        """Pull the gradients of a loss with respect to w', m' and u' back."""
        of_gradient, of_moments = Weights({}), {}
        slopes = self._slopes(weights, gradient)
        for name, moved in self._moved(weights, gradient).items():
            arriving = None if of_state is None else of_state[name]
            of_moved = self._through(moved, of_weights[name], arriving)
            first, second = (1 - self.betas[0]) * of_moved.first, 2 * (1 - self.betas[1]) * slopes[name]
            of_gradient[name] = first + second * of_moved.second
            of_moments[name] = Moments(self.betas[0] * of_moved.first, self.betas[1] * of_moved.second)
        if self.decoupled:
            before = scaled(of_weights, 1 - self.lr * self.weight_decay)
        else:
            before = added(of_weights, of_gradient, self.weight_decay)
        return PulledBack(of_gradient, before, of_moments)

    def _slopes(self, weights: Weights, gradient: Weights) -> Weights:
        """Return g̃."""
        return gradient if self.decoupled else added(gradient, weights, self.weight_decay)

    def _moved(self, weights: Weights, gradient: Weights) -> dict[str, Moments]:
        """Return m', u' and t of every weight."""
        one, two = self.betas
        moved = {}
        for name, slope in self._slopes(weights, gradient).items():
            zero = torch.zeros_like(slope)
            last = self.moments.get(name, Moments(zero, zero))
            first, second = one * last.first + (1 - one) * slope, two * last.second + (1 - two) * slope * slope
            moved[name] = Moments(first, second, last.steps + 1)
        return moved

    def _rate(self, moved: Moments) -> float:
        """Return γ/(1 − β₁ᵗ)."""
        return self.lr / (1 - float(self.betas[0] ** moved.steps))

    def _size(self, moved: Moments) -> Tensor:
        """Return √û + ε."""
        return moved.second.sqrt() / self._bias(moved) + self.eps

    def _bias(self, moved: Moments) -> float:
        return float((1 - self.betas[1] ** moved.steps) ** 0.5)

    def _through(self, moved: Moments, of_weight: Tensor, arriving: Moments | None) -> Moments:
        """Return the gradients with respect to m' and u', of which w' = … − γ/(1 − β₁ᵗ)·m'/(√û + ε)."""
        size, root = self._size(moved), moved.second.sqrt()
        zero = torch.zeros_like(root)
        of_first = torch.where(root > 0, -self._rate(moved) * of_weight / size, zero)
        of_second = torch.where(root > 0, -of_first * moved.first / (size * 2 * root * self._bias(moved)), zero)
        if arriving is None:
            return Moments(of_first, of_second)
        return Moments(of_first + arriving.first, of_second + arriving.second)


def moments_of(optimizer: torch.optim.Optimizer, weights: Weights) -> dict[str, Moments]:
    """Return the moments of every weight that has moved."""
    states = {name: optimizer.state.get(weight, {}) for name, weight in weights.items()}
    return {
        name: Moments(state["exp_avg"], state["exp_avg_sq"], float(state["step"]))
        for name, state in states.items()
        if "exp_avg" in state
    }
