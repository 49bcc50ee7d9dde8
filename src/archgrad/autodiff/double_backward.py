"""Faster double backward for functions whose second derivatives are needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from archgrad.autodiff.batch_norm import batch_norm
from archgrad.autodiff.convolution import ConvSettings, convolution
from archgrad.autodiff.forward_mode import ForwardMode

__all__ = ["TwiceDifferentiable"]


class TwiceDifferentiable(ForwardMode):
    """Speeds up second-derivative products of everything computed inside; values and gradients stay the same.

    On the CPU it replaces convolutions and batch norms by batch statistics: PyTorch's own double backward is several
    times slower. The replacements have a slower forward pass, so do not use this for first derivatives alone.

    >>> x = torch.randn(4, 2, 3, 3, requires_grad=True)
    >>> with TwiceDifferentiable():
    ...     y = F.batch_norm(x, None, None, training=True)
    >>> torch.equal(y, F.batch_norm(x, None, None, training=True))
    True
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        replacement = _REPLACEMENTS.get(func)
        found = None if replacement is None else replacement(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {})) if found is None else found

    def repetition(self) -> Callable[[], TwiceDifferentiable]:
        """Return the class: it has no state."""
        return TwiceDifferentiable


def _batch_norm(
    input: Tensor,  # noqa: A002
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor | None:
    stateless = training and running_mean is None and running_var is None
    alike = bias is None or bias.dtype == input.dtype
    if not stateless or not alike or not _replaceable(input, weight) or input.numel() <= input.shape[1]:
        return None
    return batch_norm(input, weight, eps, bias)


def _conv2d(
    input: Tensor,  # noqa: A002
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] | str = 0,
    dilation: int | tuple[int, ...] = 1,
    groups: int = 1,
) -> Tensor | None:
    if bias is not None or isinstance(padding, str) or not _replaceable(input, weight):
        return None
    return convolution(input, weight, ConvSettings(_pair(stride), _pair(padding), _pair(dilation), groups))


def _replaceable(x: Tensor, weight: Tensor | None) -> bool:
    if torch.is_autocast_enabled("cpu"):
        return False
    alike = x.dtype in (torch.float32, torch.float64) and (weight is None or weight.dtype == x.dtype)
    return alike and x.device.type == "cpu" and x.dim() == 4 and torch.is_grad_enabled()


def _pair(value: int | tuple[int, ...]) -> tuple[int, ...]:
    return (value, value) if isinstance(value, int) else tuple(value)


_REPLACEMENTS: dict[Any, Callable[..., Tensor | None]] = {F.batch_norm: _batch_norm, torch.conv2d: _conv2d}
