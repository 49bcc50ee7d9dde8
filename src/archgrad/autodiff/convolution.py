"""Convolution whose second derivatives use the same kernels as its first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from archgrad.autodiff.functions import apply, apply_all, needed_gradients

__all__ = ["ConvSettings", "convolution"]


@dataclass(frozen=True)
class ConvSettings:
    """How a kernel moves over an image; pairs are for height and width."""

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int


def convolution(x: Tensor, weight: Tensor, settings: ConvSettings) -> Tensor:
    """Return x ⋆ w, as ``conv2d`` does, with values and first derivatives equal to its own bit by bit."""
    # A view: autograd does not tell whether the gradient of a leaf is needed.
    return apply(_Convolution, x, weight.view_as(weight), settings)


class _Convolution(Function):
    """x, w ↦ x ⋆ w."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor, settings: ConvSettings) -> Tensor:
        stride, padding, dilation = settings.stride, settings.padding, settings.dilation
        return torch.conv2d(x, weight, None, stride, padding, dilation, settings.groups)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.settings = inputs[2]
        ctx.save_for_backward(*inputs[:2])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        of_x, of_weight = needed_gradients(ctx)[:2]
        return *apply_all(_Gradients, grad, x, weight, ctx.settings, (of_x, of_weight)), None


class _Gradients(Function):
    """g, x, w ↦ ∂⟨g, x ⋆ w⟩/∂x, linear in g and w, and ∂⟨g, x ⋆ w⟩/∂w, linear in g and x.

    With cotangents a and b its own gradients are a ⋆ w + x ⋆ b for g, and the same function of (g, a, b) for x and w.
    """

    @staticmethod
    def forward(
        grad: Tensor, x: Tensor, weight: Tensor, settings: ConvSettings, mask: tuple[bool, bool]
    ) -> tuple[Tensor | None, Tensor | None]:
        stride, padding, dilation = settings.stride, settings.padding, settings.dilation
        gradients: tuple[Tensor | None, ...] = torch.ops.aten.convolution_backward(
            grad, x, weight, None, stride, padding, dilation, False, [0, 0], settings.groups, [*mask, False]
        )
        return gradients[0], gradients[1]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor | None, ...]) -> None:
        ctx.settings = inputs[3]
        ctx.save_for_backward(*inputs[:3])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, a: Tensor | None, b: Tensor | None) -> tuple[Tensor | None, ...]:
        grad, x, weight = ctx.saved_tensors
        of_grad, of_x, of_weight = needed_gradients(ctx)[:3]
        terms = [] if a is None or not of_grad else [apply(_Convolution, a, weight, ctx.settings)]
        terms += [] if b is None or not of_grad else [apply(_Convolution, x, b, ctx.settings)]
        mask = of_x and b is not None, of_weight and a is not None
        operands = x if a is None else a, weight if b is None else b
        gradients = apply_all(_Gradients, grad, *operands, ctx.settings, mask) if any(mask) else (None, None)
        return _total(terms), *gradients, None, None


def _total(terms: list[Tensor]) -> Tensor | None:
    return terms[0].add_(terms[1]) if len(terms) == 2 else next(iter(terms), None)
