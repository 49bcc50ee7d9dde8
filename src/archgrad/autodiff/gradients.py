"""Gradients of losses with respect to named tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar, cast, overload

import torch
from torch import Tensor, nn

from archgrad.autodiff.vectors import V, Vector

__all__ = [
    "backward",
    "constants",
    "detached_parameters",
    "gradient_or_zero",
    "gradients",
    "leaves",
    "named_like",
    "split_trained",
]


V1 = TypeVar("V1", bound=Vector)
V2 = TypeVar("V2", bound=Vector)


def leaves(tensors: V) -> V:
    """Return the same values as new leaves that require a gradient."""
    return cast(V, {name: value.detach().requires_grad_() for name, value in tensors.items()})


@overload
def gradients(loss: Callable[[], Tensor], first: V, /, *, create_graph: bool = False) -> tuple[V]: ...


@overload
def gradients(loss: Callable[[], Tensor], first: V1, second: V2, /, *, create_graph: bool = False) -> tuple[V1, V2]: ...


@overload
def gradients(loss: Callable[[], Tensor], *variables: Vector, create_graph: bool = False) -> tuple[Vector, ...]: ...


def gradients(loss: Callable[[], Tensor], *variables: Vector, create_graph: bool = False) -> tuple[Vector, ...]:
    """Differentiate a loss with respect to several vectors; zero where it does not depend on them."""
    flat = [value for vector in variables for value in vector.values()]
    value = loss()
    if value.requires_grad:
        found = torch.autograd.grad(value, flat, create_graph=create_graph, allow_unused=True, materialize_grads=True)
    else:
        found = tuple(map(torch.zeros_like, flat))
    return named_like(found, variables)


def named_like(flat: Sequence[Tensor], like: Sequence[Vector]) -> tuple[Vector, ...]:
    """Regroup a flat sequence of tensors under the names of these vectors."""
    pieces = iter(flat)
    return tuple({name: next(pieces) for name in vector} for vector in like)


def constants(vector: V) -> V:
    """Return the same values, detached."""
    return cast(V, {name: value.clone() if value.is_inference() else value.detach() for name, value in vector.items()})


def detached_parameters(module: nn.Module, weights: V) -> V:
    """Return detached weights with copies of the module's buffers: evaluating with them changes no state."""
    buffers = {name: buffer.clone() for name, buffer in module.named_buffers()}
    return cast(V, {**buffers, **{name: weight.detach() for name, weight in weights.items()}})


def split_trained(weights: V) -> tuple[V, V]:
    """Return the weights that require a gradient, and the frozen ones."""
    trained = {name: weight for name, weight in weights.items() if weight.requires_grad}
    frozen = {name: weight for name, weight in weights.items() if name not in trained}
    return cast(V, trained), cast(V, frozen)


def backward(loss: Tensor, weights: Vector, mixture: Vector, create_graph: bool = False) -> Vector:
    """Store ∂loss/∂w in the weights' ``grad`` and return ∂loss/∂mixture, differentiable if ``create_graph``."""
    if not create_graph:  # autograd.grad may return tensors that share memory, and these are clipped in place
        torch.autograd.backward(loss, inputs=[*weights.values(), *mixture.values()])
        return {name: gradient_or_zero(value.grad, value) for name, value in mixture.items()}
    of_weights, of_mixture = gradients(lambda: loss, weights, mixture, create_graph=True)
    for name, weight in weights.items():
        weight.grad = of_weights[name].detach().clone()
    return of_mixture


def gradient_or_zero(gradient: Tensor | None, like: Tensor) -> Tensor:
    """Return the gradient, or zeros if it is None: the loss does not depend on the tensor ``like``."""
    return torch.zeros_like(like) if gradient is None else gradient
