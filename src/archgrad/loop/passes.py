"""What evaluations of a loss take and leave: constants, gradients of weights and of every cell's mixture."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from archgrad.bilevel import Weights
from archgrad.hypergradients.pattern import ActivationPattern
from archgrad.hypergradients.point import gradients
from archgrad.loop.state import SearchState

__all__ = ["Slopes", "backward", "by_training", "evaluated", "keep_gradients", "or_zero", "still", "velocity"]

Slopes = dict[str, Tensor]
"""Block → ∂L/∂p of every cell ``[cells, rows, choices]``."""


def still(state: SearchState, weights: Weights) -> Weights:
    """Return weights as constants with copies of the buffers, so that no evaluation with them leaves a trace."""
    buffers = {name: buffer.clone() for name, buffer in state.supernet.named_buffers()}
    return {**buffers, **{name: weight.detach() for name, weight in weights.items()}}


def velocity(optimizer: torch.optim.SGD, trained: Weights) -> Weights | None:
    """Return the momentum of every weight, zero for one that has not moved yet; None if none has."""
    buffers = {name: optimizer.state.get(weight, {}).get("momentum_buffer") for name, weight in trained.items()}
    if all(buffer is None for buffer in buffers.values()):
        return None
    return {name: torch.zeros_like(trained[name]) if buffer is None else buffer for name, buffer in buffers.items()}


def by_training(weights: Weights) -> tuple[Weights, Weights]:
    """Return the weights that are trained, and those that a user has frozen."""
    trained = {name: weight for name, weight in weights.items() if weight.requires_grad}
    return trained, {name: weight for name, weight in weights.items() if name not in trained}


def evaluated(kinks: ActivationPattern | None, loss: Callable[[], tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """Evaluate a loss and its logits, under a pattern of kinks if there is one."""
    if kinks is None:
        return loss()
    logits: list[Tensor] = []

    def first() -> Tensor:
        value, other = loss()
        logits.append(other)
        return value

    return kinks.evaluate(first), logits[0]


def backward(loss: Tensor, inputs: Weights, mixture: dict[str, Tensor], twice: bool) -> Slopes:
    """Leave ∂loss/∂w at the weights; return that of the mixture, ``twice`` as a function that has a gradient itself."""
    if not twice:  # not autograd.grad, whose results may share memory: they are clipped in place
        torch.autograd.backward(loss, inputs=[*inputs.values(), *mixture.values()])
        return {name: or_zero(value.grad, value) for name, value in mixture.items()}
    of_weights, slopes = gradients(lambda: loss, inputs, mixture, create_graph=True)
    for name, weight in inputs.items():
        weight.grad = of_weights[name].detach().clone()
    return slopes


def or_zero(gradient: Tensor | None, like: Tensor) -> Tensor:
    """Return a gradient; zero where nothing reads the tensor it belongs to."""
    return torch.zeros_like(like) if gradient is None else gradient


def keep_gradients(mixture: dict[str, Tensor], slopes: Slopes) -> None:
    """Have what a backward pass brings to the mixture kept; of mixtures for each image, their sum."""

    def keeper(name: str) -> Callable[[Tensor], None]:
        def keep(gradient: Tensor) -> None:
            slopes.setdefault(name, gradient.detach() if gradient.dim() == 3 else gradient.detach().sum(1))

        return keep

    for name, value in mixture.items():
        if value.requires_grad:
            value.register_hook(keeper(name))  # type: ignore[no-untyped-call]
