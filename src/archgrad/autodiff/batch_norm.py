"""Batch norm by batch statistics; its second derivatives cost about as much as its first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from archgrad.autodiff.functions import apply_all, needed_gradients
from archgrad.system.torch_compat import dense_norm_weight

__all__ = ["batch_norm", "channel_sums", "weighted_images"]

_NARROW = 16


def batch_norm(x: Tensor, weight: Tensor | None, eps: float, bias: Tensor | None = None) -> Tensor:
    """Return w·x̂ + b, where x̂ = (x − m)·r has mean 0 and variance 1 in every channel of ``x [N, C, H, W]``.

    The values and the first derivatives are those of ``torch.nn.functional.batch_norm``, bit by bit.
    """
    output: Tensor = apply_all(_Norm, x, None if weight is None else dense_norm_weight(weight), bias, eps)[0]
    return output


class _Norm(Function):
    """x, w, b ↦ w·x̂ + b, and the statistics m and r = (variance + ε)^(−1/2)."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> tuple[Tensor, Tensor, Tensor]:
        output: tuple[Tensor, Tensor, Tensor] = torch.ops.aten.native_batch_norm(
            x, weight, bias, None, None, True, 0.0, eps
        )
        return output

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        x, weight, _, ctx.eps = inputs
        ctx.save_for_backward(x, weight, *output[1:])
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, *of_statistics: None) -> tuple[Tensor | None, ...]:
        if grad is None:
            return None, None, None, None
        x, weight, mean, scale = ctx.saved_tensors
        of_x, of_weight, of_bias = needed_gradients(ctx)[:3]
        gradients = apply_all(_Gradients, grad, x, mean, scale, weight, ctx.eps, of_x)
        return gradients[0], gradients[1] if of_weight else None, gradients[2] if of_bias else None, None


class _Gradients(Function):
    """g, x, w ↦ ∂⟨g, w·x̂⟩/∂x = w·r·(g − ⟨g⟩ − x̂·⟨g·x̂⟩), ∂⟨g, w·x̂⟩/∂w = Σ g·x̂, and Σ g; ⟨·⟩ is a channel's mean."""

    @staticmethod
    def forward(
        grad: Tensor, x: Tensor, mean: Tensor, scale: Tensor, weight: Tensor | None, eps: float, of_x: bool
    ) -> tuple[Tensor | None, Tensor, Tensor]:
        gradients: tuple[Tensor | None, Tensor, Tensor] = torch.ops.aten.native_batch_norm_backward(
            grad, x, weight, None, None, mean, scale, True, eps, [of_x, True, True]
        )
        return gradients

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.eps = inputs[5]
        ctx.save_for_backward(*inputs[:5], *output[1:])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, a: Tensor | None, b: Tensor | None, c: Tensor | None) -> tuple[Tensor | None, ...]:
        grad, x, mean, scale, weight, *sums = ctx.saved_tensors
        cotangents = torch.zeros_like(x) if a is None else a, b
        if torch.is_grad_enabled():
            of_grad, of_x, of_weight = _differentiable(ctx.needs_input_grad, (grad, x, weight), ctx.eps, cotangents)
        else:
            of_grad, of_x, of_weight = _second_derivatives((grad, x, weight), (mean, scale), sums, cotangents)
        if c is not None and of_grad is not None:  # Σ g, the gradient of b, is linear in g
            of_grad = of_grad + c.view(-1, 1, 1)
        return of_grad, of_x, None, None, of_weight, None, None


def _second_derivatives(
    inputs: tuple[Tensor, Tensor, Tensor | None],
    statistics: tuple[Tensor, Tensor],
    sums: list[Tensor],
    cotangents: tuple[Tensor, Tensor | None],
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Differentiate L = ⟨a, ∂x⟩ + ⟨b, ∂w⟩ with respect to g, x and w.

    With k = ⟨(a − ⟨a⟩)·(g − ⟨g⟩)⟩ − ⟨a·x̂⟩⟨g·x̂⟩ and q = b − w·r·⟨a·x̂⟩,

        ∂L/∂g = w·r·(a − ⟨a⟩) + q·x̂,
        ∂L/∂x = r·[q·(g − ⟨g⟩) − w·r·⟨g·x̂⟩·(a − ⟨a⟩) − ((q − w·r·⟨a·x̂⟩)·⟨g·x̂⟩ + w·r·k)·x̂],
        ∂L/∂w = Σ r·k.
    """
    (grad, x, weight), (mean, r), (a, b) = inputs, statistics, cotangents
    count = x.numel() // x.shape[1]
    g_dot, g_mean = (total / count for total in sums)
    a_dot, a_mean = _moments(a, x, mean, r)
    k = _moments(a, grad, g_mean, torch.ones_like(r))[0] - a_dot * g_dot
    wr = r if weight is None else weight * r
    pull = wr * a_dot
    q = -pull if b is None else b - pull
    qr = q * r
    on_x = -r * r * ((q - pull) * g_dot + wr * k)
    of_grad = _combined((wr, a, a_mean), (qr, x, mean))
    of_x = _combined((-wr * r * g_dot, a, a_mean), (qr, grad, g_mean), (on_x, x, mean))
    return of_grad, of_x, None if weight is None else count * r * k


def _moments(a: Tensor, x: Tensor, mean: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    """Return ⟨a·(x − mean)·scale⟩ and ⟨a⟩ of every channel, in one pass."""
    sums = channel_sums(a, x, mean, scale)
    count = x.numel() // x.shape[1]
    return sums[0] / count, sums[1] / count


def channel_sums(a: Tensor, x: Tensor, mean: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    """Return Σ a·(x − mean)·scale and Σ a of every channel of ``[N, C, H, W]``, in one pass."""
    sums: tuple[Tensor, Tensor] = torch.ops.aten.native_batch_norm_backward(
        a, x, None, None, None, mean, scale, True, 0.0, [False, True, True]
    )[1:]
    return sums


def _combined(*terms: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    """Return Σ coefficient·(x − mean) over the terms, with one coefficient and one mean per channel."""
    coefficients, images, means = zip(*terms, strict=True)
    constant = coefficients[0] * means[0]
    for coefficient, mean in zip(coefficients[1:], means[1:], strict=True):
        constant.addcmul_(coefficient, mean)
    return weighted_images((constant.neg_(), *coefficients), images)


def weighted_images(vectors: Sequence[Tensor], images: Sequence[Tensor]) -> Tensor:
    """Return v₀ + Σ vᵢ·xᵢ over the images xᵢ, with one number per channel in each v."""
    if images[0].shape[1] < _NARROW and images[0].is_contiguous(memory_format=torch.channels_last):
        return _row_by_row(vectors, images)
    return _weighted([vector.view(-1, 1, 1) for vector in vectors], images)


def _row_by_row(vectors: Sequence[Tensor], images: Sequence[Tensor]) -> Tensor:
    """Add the images one row of pixels at a time: a single pixel has too few channels for the vector units."""
    n, c, h, w = images[0].shape
    repeated = torch.stack(list(vectors)).repeat(1, w).unbind()
    rows = [image.permute(0, 2, 3, 1).reshape(n * h, w * c) for image in images]
    return _weighted(repeated, rows).view(n, h, w, c).permute(0, 3, 1, 2)


def _weighted(vectors: Sequence[Tensor], tensors: Sequence[Tensor]) -> Tensor:
    """Return v₀ + Σ vᵢ·xᵢ over the tensors xᵢ."""
    total = torch.addcmul(vectors[0], tensors[0], vectors[1])
    for vector, tensor in zip(vectors[2:], tensors[1:], strict=True):
        total.addcmul_(tensor, vector)
    return total


def _differentiable(
    needs: tuple[bool, ...],
    inputs: tuple[Tensor, Tensor, Tensor | None],
    eps: float,
    cotangents: tuple[Tensor, Tensor | None],
) -> tuple[Tensor | None, ...]:
    """Return the same as :func:`_second_derivatives` in functions that can be differentiated further."""
    # Views: g itself depends on x, and no gradient may flow through that here.
    grad, x = (tensor.view_as(tensor) for tensor in inputs[:2])
    weight = None if inputs[2] is None else inputs[2].view_as(inputs[2])
    a, b = cotangents
    of_x, of_weight = _textbook_gradients(grad, x, weight, eps)
    value = (of_x * a).sum() if b is None else (of_x * a).sum() + (of_weight * b).sum()
    asked = (needs[0], needs[1], needs[4])
    sources = [tensor for tensor, need in zip((grad, x, weight), asked, strict=True) if need and tensor is not None]
    found = iter(torch.autograd.grad(value, sources, create_graph=True, allow_unused=True))
    return tuple(next(found) if need else None for need in asked)


def _textbook_gradients(grad: Tensor, x: Tensor, weight: Tensor | None, eps: float) -> tuple[Tensor, Tensor]:
    centered = x - _mean(x)
    scale = (_mean(centered.square()) + eps).rsqrt()
    unit = centered * scale
    of_unit = grad if weight is None else grad * weight.view(-1, 1, 1)
    of_x = scale * (of_unit - _mean(of_unit) - unit * _mean(of_unit * unit))
    return of_x, (grad * unit).sum((0, 2, 3))


def _mean(x: Tensor) -> Tensor:
    return x.mean((0, 2, 3), keepdim=True)
