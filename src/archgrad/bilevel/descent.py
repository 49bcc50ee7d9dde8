"""Gradient descent with momentum on the inner problem, differentiable step by step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch

from archgrad.autodiff.tensors import Weights
from archgrad.autodiff.vectors import added, scaled, zeros_like
from archgrad.parts.fields import NonNegative, check_fields

__all__ = ["Descent", "InnerDescent", "PulledBack", "momentum_of"]


class PulledBack(NamedTuple):
    """The gradients of a loss with respect to what a step begins with: ∂L1/∂w, the weights themselves, its state."""

    gradient: Weights
    weights: Weights
    state: Any


class InnerDescent(ABC):
    """An optimizer of the weights at its present state, a frozen dataclass whose steps can be differentiated."""

    lr: NonNegative
    weight_decay: NonNegative

    def __post_init__(self) -> None:
        check_fields(self)

    @abstractmethod
    def step(self, weights: Weights, gradient: Weights) -> tuple[Weights, InnerDescent]:
        """Return the weights after one step, and the descent that continues from there."""

    @abstractmethod
    def pull_back(self, weights: Weights, gradient: Weights, of_weights: Weights, of_state: Any = None) -> PulledBack:
        """Pull the gradients of a loss with respect to the weights and the state after a step back through it.

        ``weights`` and ``gradient`` are those that the step was given, as independent of each other. ``of_state`` None
        is zero.
        """


@dataclass(frozen=True, eq=False)
class Descent(InnerDescent):
    """SGD as PyTorch defines it, with its present momentum.

    g̃ = g + λw,  v' = μv + g̃,  w' = w − γ·v'  (with Nesterov momentum w' = w − γ·(g̃ + μv')).
    """

    lr: NonNegative
    momentum: NonNegative = 0.0
    weight_decay: NonNegative = 0.0
    nesterov: bool = False
    velocity: Weights | None = None

    def step(self, weights: Weights, gradient: Weights) -> tuple[Weights, Descent]:
        """Return the weights after one step, and the descent that continues from there."""
        decayed = added(gradient, weights, self.weight_decay)
        velocity = decayed if self.velocity is None else added(decayed, self.velocity, self.momentum)
        direction = added(decayed, velocity, self.momentum) if self.nesterov else velocity
        return added(weights, direction, -self.lr), replace(self, velocity=velocity)

    def pull_back(
        self, weights: Weights, gradient: Weights, of_weights: Weights, of_state: Weights | None = None
    ) -> PulledBack:
        """Pull the gradients of a loss by w' and v' back; the step is linear, so its values do not matter."""
        of_velocity = zeros_like(of_weights) if of_state is None else of_state
        share = self.momentum if self.nesterov else 1.0
        through = added(of_velocity, of_weights, -self.lr * share)
        of_gradient = added(through, of_weights, -self.lr) if self.nesterov else through
        before = added(of_weights, of_gradient, self.weight_decay)
        return PulledBack(of_gradient, before, scaled(through, self.momentum))


def momentum_of(optimizer: torch.optim.Optimizer, weights: Weights) -> Weights | None:
    """Return the momentum of every weight; None if no weight has moved yet."""
    buffers = {name: optimizer.state.get(weight, {}).get("momentum_buffer") for name, weight in weights.items()}
    if all(buffer is None for buffer in buffers.values()):
        return None
    return Weights(
        {name: torch.zeros_like(weights[name]) if buffer is None else buffer for name, buffer in buffers.items()}
    )
