"""Arithmetic of vectors that are dictionaries of named tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar, cast

import torch
from torch import Tensor

__all__ = ["V", "Vector", "added", "cosine", "dot", "flattened", "norm", "scaled", "unflattened", "zeros_like"]

Vector = dict[str, Tensor]
"""A vector as named tensors."""

V = TypeVar("V", bound=Vector)
"""Any type of vector, such as Weights; results have the type of their input."""


def added(x: V, y: Mapping[str, Tensor], factor: float = 1.0) -> V:
    """Return x + factor·y.

    >>> added({"a": torch.tensor(1.0)}, {"a": torch.tensor(2.0)}, -3.0)
    {'a': tensor(-5.)}
    """
    return cast(V, {name: torch.add(value, y[name], alpha=factor) for name, value in x.items()})


def scaled(x: V, factor: float) -> V:
    """Return factor·x."""
    return cast(V, {name: value * factor for name, value in x.items()})


def zeros_like(x: V) -> V:
    """Return the zero vector of this shape."""
    return cast(V, {name: torch.zeros_like(value) for name, value in x.items()})


def dot(x: Mapping[str, Tensor], y: Mapping[str, Tensor]) -> float:
    """Return ⟨x, y⟩, with the pieces summed in float64."""
    pieces = [torch.dot(value.flatten(), y[name].flatten()).double() for name, value in x.items()]
    return torch.stack(pieces).sum().item() if pieces else 0.0


def norm(x: Mapping[str, Tensor]) -> float:
    """Return ‖x‖.

    >>> norm({"a": torch.tensor([3.0]), "b": torch.tensor([[4.0]])})
    5.0
    """
    pieces = [torch.linalg.vector_norm(value).double() for value in x.values()]
    return torch.linalg.vector_norm(torch.stack(pieces)).item() if pieces else 0.0


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
