"""Frozen versions of PyTorch functions with kinks: each stays on one smooth piece."""
# ruff: noqa: A002 - PyTorch calls its first argument "input"

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from archgrad.system.torch_compat import function_places

__all__ = ["KINKED_FUNCTIONS", "Keeper"]


class Keeper(Protocol):
    """Records decisions in the first evaluation and repeats them in all later ones."""

    recorded: bool

    def keep(self, decide: Callable[[], Tensor]) -> Tensor:
        """Return the result of ``decide`` at this place of the first evaluation."""


Frozen = Callable[..., Any]
"""(keeper, arguments of a PyTorch function) → its result on the recorded piece."""


def _leaky_relu(keeper: Keeper, input: Tensor, negative_slope: float = 0.01) -> Tensor:
    return torch.where(keeper.keep(lambda: input > 0), input, negative_slope * input)


def _prelu(keeper: Keeper, input: Tensor, weight: Tensor) -> Tensor:
    slope = weight if weight.numel() == 1 else weight.view(-1, *[1] * (input.dim() - 2))
    return torch.where(keeper.keep(lambda: input > 0), input, slope * input)


def _hardtanh(keeper: Keeper, input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    below, above = keeper.keep(lambda: input <= min_val), keeper.keep(lambda: input >= max_val)
    return _unless(above, _unless(below, input, min_val), max_val)


def _relu6(keeper: Keeper, input: Tensor) -> Tensor:
    return _hardtanh(keeper, input, 0.0, 6.0)


def _hardsigmoid(keeper: Keeper, input: Tensor) -> Tensor:
    return _hardtanh(keeper, input / 6 + 0.5, 0.0, 1.0)


def _hardswish(keeper: Keeper, input: Tensor) -> Tensor:
    return input * _hardsigmoid(keeper, input)


def _clamp(keeper: Keeper, input: Tensor, min: Any = None, max: Any = None) -> Tensor:
    if not input.is_floating_point():
        return torch.clamp(input, min, max)
    output = input
    if min is not None:
        output = _unless(keeper.keep(lambda: input < min), output, min)
    if max is not None:
        raised = output
        output = _unless(keeper.keep(lambda: raised > max), raised, max)
    return output


def _unless(outside: Tensor, value: Tensor, bound: Any) -> Tensor:
    """Return the bound where the value was outside, else the value."""
    return torch.where(outside, torch.as_tensor(bound, dtype=value.dtype, device=value.device), value)


def _clamp_min(keeper: Keeper, input: Tensor, min: Any) -> Tensor:
    return _clamp(keeper, input, min)


def _clamp_max(keeper: Keeper, input: Tensor, max: Any) -> Tensor:
    return _clamp(keeper, input, None, max)


def _abs(keeper: Keeper, input: Tensor) -> Tensor:
    if input.is_complex():
        return input.abs()
    return input * keeper.keep(input.sign)


def _max_pool(function: Any) -> Frozen:
    """Return frozen max-pooling over the last two dimensions; ``function`` also returns the indices."""

    def frozen(keeper: Keeper, input: Tensor, *args: Any, return_indices: bool = False, **kwargs: Any) -> Any:
        if not keeper.recorded:  # its own gradient is faster than that of gather
            values, chosen = function(input, *args, **kwargs)
            keeper.keep(lambda: chosen)
            return (values, chosen) if return_indices else values
        chosen = keeper.keep(lambda: input)
        values = input.flatten(-2).gather(-1, chosen.flatten(-2)).view(chosen.shape)
        return (values, chosen) if return_indices else values

    return frozen


def _constant(function: Any) -> Frozen:
    """Return a frozen piecewise constant function: it repeats its first result."""

    def frozen(keeper: Keeper, *args: Any, **kwargs: Any) -> Any:
        if not any(isinstance(one, Tensor) and one.is_floating_point() for one in (*args, *kwargs.values())):
            return function(*args, **kwargs)
        return keeper.keep(lambda: function(*args, **kwargs))

    return frozen


def _in_place(frozen: Frozen) -> Frozen:
    def replaced(keeper: Keeper, input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return input.copy_(frozen(keeper, input.clone(), *args, **kwargs))  # its gradient may read the old values

    return replaced


def _maybe_in_place(frozen: Frozen) -> Frozen:
    """Support the argument ``inplace`` of activations in :mod:`torch.nn.functional`."""

    def either(keeper: Keeper, input: Tensor, *args: Any, inplace: bool = False, **kwargs: Any) -> Any:
        return (_in_place(frozen) if inplace else frozen)(keeper, input, *args, **kwargs)

    return either


def _functions(name: str) -> Iterable[Any]:
    """Return all functions and methods of PyTorch with this name."""
    return [getattr(place, name) for place in function_places() if hasattr(place, name)]


_ELEMENTWISE: dict[str, Frozen] = {
    "leaky_relu": _leaky_relu, "prelu": _prelu, "relu6": _relu6, "hardtanh": _hardtanh, "hardsigmoid": _hardsigmoid,
    "hardswish": _hardswish, "clamp": _clamp, "clip": _clamp, "clamp_min": _clamp_min, "clamp_max": _clamp_max,
    "abs": _abs, "__abs__": _abs,
}  # fmt: skip
_POOLS: dict[str, Frozen] = {
    "max_pool2d": _max_pool(F.max_pool2d_with_indices),
    "adaptive_max_pool2d": _max_pool(F.adaptive_max_pool2d_with_indices),
}
_JUMPING = (
    "gt", "ge", "lt", "le", "eq", "ne", "__gt__", "__ge__", "__lt__", "__le__", "__eq__", "__ne__", "sign", "argmax",
    "argmin", "floor", "ceil", "round", "trunc",
)  # fmt: skip


def _table() -> dict[Any, Frozen]:
    found: dict[Any, Frozen] = {}
    for name, frozen in _POOLS.items():
        found |= dict.fromkeys(_functions(name), frozen)
        found |= dict.fromkeys(_functions(f"{name}_with_indices"), partial(frozen, return_indices=True))
    for name, frozen in _ELEMENTWISE.items():
        found |= dict.fromkeys(_functions(name), _maybe_in_place(frozen))
        found |= dict.fromkeys(_functions(f"{name}_"), _in_place(frozen))
    return found | {one: _constant(one) for name in _JUMPING for one in _functions(name)}


KINKED_FUNCTIONS: dict[Any, Frozen] = _table()
"""PyTorch functions with kinks or jumps; ReLU has its own, faster code.

Kinks of other activations, of maxima, sorts, norms, losses and recurrent layers are not frozen: a search finds them by
the difference check, and goes on with exact products.
"""
