"""Batch norm by the statistics of the joint batch: one collective in the forward pass, one in each derivative."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function

from archgrad.autodiff.batch_norm import channel_sums, weighted_images
from archgrad.autodiff.functions import apply_all, needed_gradients
from archgrad.distributed.collectives import all_gather, all_sum
from archgrad.distributed.functions import joint_sum
from archgrad.system.torch_compat import dense_norm_weight

__all__ = ["joint_batch_norm", "synchronized_batch_norm"]


def synchronized_batch_norm(
    input: Tensor,  # noqa: A002 - PyTorch's word
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Return what ``torch.nn.functional.batch_norm`` does, by the statistics of the joint batch."""
    if not training:
        return F.batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    shape = input.shape
    images = input if input.dim() == 4 else input.reshape(*shape[:2], -1, 1)
    if images.dtype not in (torch.float32, torch.float64):
        images = images.float()
    weight, bias = (one if one is None else one.to(images.dtype) for one in (weight, bias))
    output, mean, variance, count = joint_batch_norm(images, weight, eps, bias)
    with torch.no_grad():
        if running_mean is not None:
            running_mean.lerp_(mean.to(running_mean.dtype), momentum)
        if running_var is not None:
            running_var.lerp_((variance * count / (count - 1)).to(running_var.dtype), momentum)
    return output.to(input.dtype).view(shape) if input.dim() == 4 else output.to(input.dtype).reshape(shape)


def joint_batch_norm(
    x: Tensor, weight: Tensor | None, eps: float, bias: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return w·x̂ + b, where x̂ = (x − m)·r has mean 0 and variance 1 in the channels of all shards ``[N, C, H, W]``.

    Also return the mean and the variance of each channel, and the number of values that they are of.
    """
    dense = None if weight is None else dense_norm_weight(weight)
    output, mean, _, variance, count = apply_all(_Norm, x, dense, bias, eps)
    return output, mean, variance, count


class _Norm(Function):
    """x, w, b ↦ w·x̂ + b, and the joint statistics m, r = (variance + ε)^(−1/2), the variance and the count."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> tuple[Tensor, ...]:
        own = torch.ops.aten.batch_norm_update_stats(x, None, None, 0.0)
        rows = all_gather(torch.cat([*own, own[0].new_full((1,), x.numel() // x.shape[1])]))
        mean, variance, r, count = _as_tensors(_merged(_fast(rows), x.shape[1], eps))
        output = torch.ops.aten.native_batch_norm(x, weight, bias, mean, variance, False, 0.0, eps)[0]
        return output, mean, r, variance, count

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        x, weight, _, ctx.eps = inputs
        mean, scale, _, count = output[1:]
        ctx.save_for_backward(x, weight, mean, scale, count)
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, *of_statistics: None) -> tuple[Tensor | None, ...]:
        if grad is None:
            return None, None, None, None
        x, weight, *statistics = ctx.saved_tensors
        of_x, of_weight, of_bias = needed_gradients(ctx)[:3]
        found = apply_all(_Gradients, grad, x, weight, *statistics, ctx.eps, of_x or torch.is_grad_enabled())
        return (
            found[0] if of_x else None, found[1] if of_weight else None, found[2] if of_bias else None, None
        )  # fmt: skip


class _Gradients(Function):
    """g, x, w ↦ r·(u − ⟨u⟩ − x̂·⟨u·x̂⟩) with u = w·g, and Σ g·x̂ and Σ g over the own rows.

    ⟨·⟩ is the mean over a channel in all shards. The last output is ⟨u⟩ and ⟨u·x̂⟩.
    """

    @staticmethod
    def forward(
        grad: Tensor, x: Tensor, weight: Tensor | None, mean: Tensor, r: Tensor, count: Tensor, eps: float, of_x: bool
    ) -> tuple[Tensor | None, ...]:
        dot, total = channel_sums(grad, x, mean, r)
        if not of_x:
            return None, dot, total, None
        own = torch.stack([total, dot])
        joint = all_sum(own if weight is None else own * weight)
        factors = map(_fast, (joint, mean, r, count, torch.ones_like(r) if weight is None else weight))
        joint, *vectors = _as_tensors(_coefficients(*factors))
        return weighted_images(vectors, (grad, x)), dot, total, joint

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        ctx.eps = inputs[6]
        ctx.save_for_backward(*inputs[:6], *output[1:])
        if output[3] is not None:
            ctx.mark_non_differentiable(output[3])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, a: Tensor | None, b: Tensor | None, c: Tensor | None, *_: None) -> tuple[Any, ...]:
        grad, x, weight, mean, r, count, dot, total, joint = ctx.saved_tensors
        cotangents = torch.zeros_like(x) if a is None else a, torch.zeros_like(dot) if b is None else b
        if torch.is_grad_enabled():
            of_grad, of_x, of_weight = _differentiable(ctx.needs_input_grad, (grad, x, weight), cotangents, ctx.eps)
        else:
            statistics, own = (mean, r, count, joint), (dot, total)
            of_grad, of_x, of_weight = _second_derivatives((grad, x, weight), statistics, own, cotangents)
        if c is not None and of_grad is not None:  # Σ g, the gradient of b, is linear in g
            of_grad = of_grad + c.view(-1, 1, 1)
        return of_grad, of_x, of_weight, None, None, None, None, None


def _fast(x: Tensor) -> Any:
    """Return a small tensor as an array of NumPy, which computes with it several times faster; on the CPU only."""
    return x.detach().numpy() if x.device.type == "cpu" else x


def _as_tensors(values: tuple[Any, ...]) -> list[Tensor]:
    return [value if isinstance(value, Tensor) else torch.from_numpy(np.asarray(value)) for value in values]


def _merged(rows: Any, channels: int, eps: float) -> tuple[Any, ...]:
    """Return mean, variance, r and count of all shards from the means, variances and the count of each (Chan, 1979)."""
    means, variances, counts = rows[:, :channels], rows[:, channels:-1], rows[:, -1]
    count = counts.sum()
    shares = counts / count
    mean = shares @ means
    apart = means - mean
    variance = shares @ (variances + apart * apart)
    return mean, variance, (variance + eps) ** -0.5, count


def _coefficients(joint: Any, mean: Any, r: Any, count: Any, weight: Any) -> tuple[Any, ...]:
    """Return ⟨u⟩ and ⟨u·x̂⟩, and the constant and the factors of g and x in r·(u − ⟨u⟩ − x̂·⟨u·x̂⟩)."""
    joint = joint / count
    on_x = -r * r * joint[1]
    return joint, -r * joint[0] - on_x * mean, r * weight, on_x


def _second_derivatives(
    inputs: tuple[Tensor, Tensor, Tensor | None],
    statistics: tuple[Tensor, Tensor, Tensor, Tensor],
    own: tuple[Tensor, Tensor],
    cotangents: tuple[Tensor, Tensor],
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Differentiate L = Σ over shards of ⟨a, ∂x⟩ + ⟨b, ∂w⟩ with respect to g, x and w.

    With u = w·g, e = b·g, p = ⟨a·x̂⟩, s = ⟨u·x̂⟩ and k = ⟨a·u⟩ − ⟨a⟩⟨u⟩ − p·s,

        ∂L/∂g = w·r·(a − ⟨a⟩ − p·x̂) + b·x̂,
        ∂L/∂x = r·[e − ⟨e⟩ − r·p·(u − ⟨u⟩) − r·s·(a − ⟨a⟩) − (⟨e·x̂⟩ + r·k − 2·r·p·s)·x̂],
        ∂L/∂w = r·Σ g·(a − ⟨a⟩ − p·x̂) over the own rows.
    """
    (grad, x, weight), (mean, r, count, (u_mean, s)), (dot, total), (a, b) = inputs, statistics, own, cotangents
    w = torch.ones_like(r) if weight is None else weight
    a_dot, a_total = channel_sums(a, x, mean, r)
    a_grad = channel_sums(a, grad, torch.zeros_like(r), torch.ones_like(r))[0]
    sums = torch.stack([a_total, a_dot, w * a_grad, b * total, b * dot])
    a_mean, p, a_u, e_mean, e_dot = (all_sum(sums) / count).unbind()
    k = a_u - a_mean * u_mean - p * s
    wr, on_x = w * r, r * (b - w * r * p)
    of_grad = weighted_images((-wr * a_mean - on_x * mean, wr, on_x), (a, x))
    on_grad, on_a, on_x = on_x, -r * r * s, -r * r * (e_dot + r * k - 2 * r * p * s)
    constant = r * (r * p * u_mean + r * s * a_mean - e_mean) - on_x * mean
    of_x = weighted_images((constant, on_grad, on_a, on_x), (grad, a, x))
    return of_grad, of_x, None if weight is None else r * (a_grad - a_mean * total - p * dot)


def _differentiable(
    needs: tuple[bool, ...],
    inputs: tuple[Tensor, Tensor, Tensor | None],
    cotangents: tuple[Tensor, Tensor],
    eps: float,
) -> tuple[Tensor | None, ...]:
    """Return the same as :func:`_second_derivatives` in functions that can be differentiated further."""
    # Views: g itself depends on x, and no gradient may flow through that here.
    grad, x = (tensor.view_as(tensor) for tensor in inputs[:2])
    weight = None if inputs[2] is None else inputs[2].view_as(inputs[2])
    of_x, of_weight = _textbook_gradients(grad, x, weight, eps)
    value = (of_x * cotangents[0]).sum() + (of_weight * cotangents[1]).sum()
    pairs = zip((grad, x, weight), needs, strict=False)
    sources = [tensor for tensor, need in pairs if need and tensor is not None]
    found = iter(torch.autograd.grad(value, sources, create_graph=True, allow_unused=True))
    return tuple(next(found) if need else None for need in needs[:3])


def _textbook_gradients(grad: Tensor, x: Tensor, weight: Tensor | None, eps: float) -> tuple[Tensor, Tensor]:
    count = all_sum(x.new_tensor([x.numel() // x.shape[1]]))

    def mean(values: Tensor) -> Tensor:
        return joint_sum(values.sum((0, 2, 3), keepdim=True)) / count

    centered = x - mean(x)
    scale = (mean(centered.square()) + eps).rsqrt()
    unit = centered * scale
    of_unit = grad if weight is None else grad * weight.view(-1, 1, 1)
    of_x = scale * (of_unit - mean(of_unit) - unit * mean(of_unit * unit))
    return of_x, (grad * unit).sum((0, 2, 3))
