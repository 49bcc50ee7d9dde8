"""Arithmetic of vectors that are dictionaries of named tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar, cast

import torch
from torch import Tensor

from archgrad.system.devices import reads_are_free, widened

__all__ = [
    "Number", "V", "Vector", "added", "cosine", "dot", "flattened", "length", "norm", "scaled", "unflattened",
    "zeros_like",
]  # fmt: skip

Vector = dict[str, Tensor]
"""A vector as named tensors."""

Number = float | Tensor
"""A number, as a tensor without dimensions where Python would have to wait for it."""

V = TypeVar("V", bound=Vector)
"""Any type of vector, such as Weights; results have the type of their input."""


def added(x: V, y: Mapping[str, Tensor], factor: float = 1.0) -> V:
    """Return x + factor·y.

    >>> added({"a": torch.tensor(1.0)}, {"a": torch.tensor(2.0)}, -3.0)
    {'a': tensor(-5.)}
    """
    return cast(V, {name: torch.add(value, y[name], alpha=factor) for name, value in x.items()})


def scaled(x: V, factor: Number) -> V:
    """Return factor·x."""
    return cast(V, {name: value * factor for name, value in x.items()})


def zeros_like(x: V) -> V:
    """Return the zero vector of this shape."""
    return cast(V, {name: torch.zeros_like(value) for name, value in x.items()})


def dot(x: Mapping[str, Tensor], y: Mapping[str, Tensor]) -> float:
    """Return ⟨x, y⟩, with the pieces summed in float64."""
    pieces = [widened(torch.dot(value.flatten(), y[name].flatten())) for name, value in x.items()]
    return torch.stack(pieces).sum().item() if pieces else 0.0


def norm(x: Mapping[str, Tensor]) -> float:
    """Return ‖x‖.

    >>> norm({"a": torch.tensor([3.0]), "b": torch.tensor([[4.0]])})
    5.0
    """
    found = _norm(x)
    return found if isinstance(found, float) else found.item()


def length(x: Mapping[str, Tensor]) -> Number:
    """Return ‖x‖ to divide by: a number on the CPU; elsewhere a tensor, which is 1 if x is zero."""
    found = _norm(x)
    if isinstance(found, float):
        return found
    if reads_are_free(found.device):
        return found.item()
    return torch.where(found > 0, found, torch.ones_like(found))


def _norm(x: Mapping[str, Tensor]) -> Number:
    pieces = [widened(torch.linalg.vector_norm(value)) for value in x.values()]
    return torch.linalg.vector_norm(torch.stack(pieces)) if pieces else 0.0


def cosine(x: Mapping[str, Tensor], y: Mapping[str, Tensor]) -> float:
    """Return the cosine of the angle between x and y; 1 if both are zero, 0 if one of them is.

    >>> cosine({"a": torch.tensor([1.0, 0.0])}, {"a": torch.tensor([0.0, 2.0])})
    0.0
    """
    lengths = norm(x), norm(y)
    if not all(lengths):
        return float(lengths[0] == lengths[1])
    return dot(x, y) / (lengths[0] * lengths[1])


def flattened(x: Mapping[str, Tensor]) -> Tensor:
    """Return all tensors joined into one of one dimension."""
    return torch.cat([value.flatten() for value in x.values()])


def unflattened(flat: Tensor, like: V) -> V:
    """Undo :func:`flattened`."""
    pieces = torch.split(flat, [value.numel() for value in like.values()])
    named = zip(pieces, like.items(), strict=True)
    return cast(V, {name: piece.view(value.shape) for piece, (name, value) in named})
