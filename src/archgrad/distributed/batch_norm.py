"""Batch norms by the statistics of the joint batch: one collective in the forward pass, one in the derivative.

Several batch norms share these collectives, if their inputs are there at the same time and have one shape.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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

__all__ = ["joint_batch_norms", "synchronized_batch_norm"]

Weights = Sequence[Tensor | None]


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
    images = input if input.dim() == 4 else input.reshape(*input.shape[:2], -1, 1)
    (output,), (mean,), (variance,), count = joint_batch_norms([images], [weight], eps, [bias])
    with torch.no_grad():
        if running_mean is not None:
            running_mean.lerp_(mean.to(running_mean.dtype), momentum)
        if running_var is not None:
            running_var.lerp_((variance * count / (count - 1)).to(running_var.dtype), momentum)
    return output.view(input.shape) if input.dim() == 4 else output.reshape(input.shape)


def joint_batch_norms(
    images: Sequence[Tensor], weights: Weights, eps: float, biases: Weights = ()
) -> tuple[Sequence[Tensor], Tensor, Tensor, Tensor]:
    """Return w·x̂ + b for each x, where x̂ = (x − m)·r has mean 0 and variance 1 in the channels of all shards.

    The n ``images`` x have one shape ``[N, C, H, W]``. Also return the means and the variances of their channels
    ``[n, C]``, and the number of values that each is of.
    """
    exact = [x if x.dtype in (torch.float32, torch.float64) else x.float() for x in images]
    dense = [None if one is None else dense_norm_weight(one.to(exact[0].dtype)) for one in weights]
    shifts = [None if one is None else one.to(exact[0].dtype) for one in biases] or [None] * len(images)
    *outputs, mean, _, variance, count = apply_all(_Norms, eps, *exact, *dense, *shifts)
    return [y.to(x.dtype) for x, y in zip(images, outputs, strict=True)], mean, variance, count


class _Norms(Function):
    """x, w, b ↦ w·x̂ + b of each norm; m, r = (variance + ε)^(−1/2) and the variance ``[n, C]`` of all; the count."""

    @staticmethod
    def forward(eps: float, *tensors: Any) -> tuple[Tensor, ...]:
        images, weights, biases = _thirds(tensors)
        own = _stacked(torch.ops.aten.batch_norm_update_stats(x, None, None, 0.0) for x in images)
        size = own.new_full((1,), images[0].numel() // images[0].shape[1])
        rows = all_gather(torch.cat([own.reshape(-1), size]))
        mean, variance, r, count = _as_tensors(_merged(_fast(rows), own.shape[1:], eps))
        parts = zip(images, weights, biases, mean, variance, strict=True)
        outputs = (torch.ops.aten.native_batch_norm(*part, False, 0.0, eps)[0] for part in parts)
        return *outputs, mean, r, variance, count

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.eps, *tensors = inputs
        images, weights, _ = _thirds(tensors)
        mean, r, _, count = output[-4:]
        ctx.save_for_backward(mean, r, count, *images, *weights)
        ctx.mark_non_differentiable(*output[-4:])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor | None) -> tuple[Tensor | None, ...]:
        if all(one is None for one in cotangents):
            return (None,) * len(ctx.needs_input_grad)
        mean, r, count, *tensors = ctx.saved_tensors
        needs, norms = needed_gradients(ctx, first=1), len(mean)
        images, weights, grads = tensors[:norms], tensors[norms:], _filled(cotangents[:norms], tensors)
        of_images: Sequence[Tensor | None] = [None] * norms
        if torch.is_grad_enabled():
            of_images, of_weights = _textbook_gradients(grads, images, weights, ctx.eps)
            of_biases = [g.sum((0, 2, 3)) for g in grads]
        else:
            own = _stacked(map(channel_sums, grads, images, mean, r))
            of_weights, of_biases = (sums.unbind() for sums in own)
            if any(needs[:norms]):
                of_images = _gradients_of_images(grads, images, weights, own, (mean, r, count))
        gradients = (*of_images, *of_weights, *of_biases)
        return None, *(one if need else None for one, need in zip(gradients, needs, strict=True))


def _gradients_of_images(
    grads: Sequence[Tensor], images: Sequence[Tensor], weights: Weights, own: Tensor, statistics: Sequence[Tensor]
) -> list[Tensor]:
    """Return r·(u − ⟨u⟩ − x̂·⟨u·x̂⟩) with u = w·g of each norm; ⟨·⟩ is the mean over a channel in all shards.

    ``own`` are Σ g·x̂ and Σ g over the own rows ``[2, n, C]``.
    """
    mean, r, count = statistics
    factors = _factors(weights, r)
    joint = all_sum(own.flip(0) * factors)
    vectors = _as_tensors(_coefficients(*map(_fast, (joint, mean, r, count, factors))))
    return _all_weighted(vectors, (grads, images))


def _thirds(tensors: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any], Sequence[Any]]:
    size = len(tensors) // 3
    return tensors[:size], tensors[size : 2 * size], tensors[2 * size :]


def _stacked(rows: Iterable[tuple[Tensor, ...]]) -> Tensor:
    """Return several vectors ``[C]`` of each norm as ``[vectors, n, C]``."""
    return torch.stack([torch.stack(row) for row in rows], 1)


def _filled(cotangents: Sequence[Tensor | None], like: Sequence[Tensor]) -> list[Tensor]:
    return [torch.zeros_like(x) if one is None else one for one, x in zip(cotangents, like, strict=False)]


def _factors(weights: Weights, like: Tensor) -> Tensor:
    """Return the weights ``[n, C]`` of all norms; a norm without one has ones."""
    return torch.stack([torch.ones_like(row) if one is None else one for one, row in zip(weights, like, strict=True)])


def _all_weighted(vectors: Sequence[Tensor], images: Sequence[Sequence[Tensor]]) -> list[Tensor]:
    """Return v₀ + Σ vᵢ·xᵢ of each norm."""
    pairs = zip(zip(*vectors, strict=True), zip(*images, strict=True), strict=True)
    return [weighted_images(of_norm, tensors) for of_norm, tensors in pairs]


def _fast(x: Tensor) -> Any:
    """Return a small tensor as an array of NumPy, which computes with it several times faster; on the CPU only."""
    return x.detach().numpy() if x.device.type == "cpu" else x


def _as_tensors(values: tuple[Any, ...]) -> list[Tensor]:
    return [value if isinstance(value, Tensor) else torch.from_numpy(np.asarray(value)) for value in values]


def _merged(rows: Any, shape: tuple[int, ...], eps: float) -> tuple[Any, ...]:
    """Return mean, variance, r and count of all shards from the means, variances and the count of each (Chan, 1979)."""
    size, counts = rows.shape[1] // 2, rows[:, -1]
    means, variances = rows[:, :size], rows[:, size:-1]
    count = counts.sum()
    shares = counts / count
    mean = shares @ means
    apart = means - mean
    variance = shares @ (variances + apart * apart)
    return mean.reshape(shape), variance.reshape(shape), ((variance + eps) ** -0.5).reshape(shape), count


def _coefficients(joint: Any, mean: Any, r: Any, count: Any, weight: Any) -> tuple[Any, ...]:
    """Return the constant and the factors of g and x in r·(u − ⟨u⟩ − x̂·⟨u·x̂⟩), of the sums of u and u·x̂."""
    joint = joint / count
    on_x = -r * r * joint[1]
    return -r * joint[0] - on_x * mean, r * weight, on_x


def _textbook_gradients(
    grads: Sequence[Tensor], images: Sequence[Tensor], weights: Weights, eps: float
) -> tuple[list[Tensor], list[Tensor]]:
    """Return the gradients of images and weights in functions that can be differentiated further."""
    count = all_sum(images[0].new_tensor([images[0].numel() // images[0].shape[1]]))

    def means(values: Sequence[Tensor]) -> Sequence[Tensor]:
        return (joint_sum(torch.stack([one.sum((0, 2, 3)) for one in values])) / count)[:, :, None, None].unbind()

    centered = [x - mean for x, mean in zip(images, means(images), strict=True)]
    scales = [(variance + eps).rsqrt() for variance in means([one.square() for one in centered])]
    units = [one * scale for one, scale in zip(centered, scales, strict=True)]
    of_units = [g if w is None else g * w.view(-1, 1, 1) for g, w in zip(grads, weights, strict=True)]
    products = means([one * unit for one, unit in zip(of_units, units, strict=True)])
    parts = zip(scales, of_units, means(of_units), units, products, strict=True)
    of_images = [scale * (of_unit - mean - unit * product) for scale, of_unit, mean, unit, product in parts]
    return of_images, [(g * unit).sum((0, 2, 3)) for g, unit in zip(grads, units, strict=True)]
