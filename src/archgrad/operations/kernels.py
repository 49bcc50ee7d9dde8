"""Fast CPU kernels for the functions that dominate a supernet's time; exact, and differentiable any number of times.

Each is the textbook operation with other code for its gradients on a CPU. The backward pass of each uses the others,
so Hessian products are fast too. Other devices use the vendor's kernels.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function

from archgrad.autodiff.functions import apply, needed_gradients
from archgrad.distributed.pending_norms import PendingNorm
from archgrad.distributed.shard import has_joint_statistics
from archgrad.system.torch_compat import dense_norm_weight

__all__ = ["average_pool", "depthwise_conv", "mix", "norm_in_node", "scaled_norm"]


def depthwise_conv(x: Tensor, weight: Tensor, stride: int = 1, dilation: int = 1) -> Tensor:
    """Convolve each channel of ``x [N, C, H, W]`` with its own odd kernel ``[C, 1, k, k]``, padded to keep H and W.

    Dilation 2 becomes an undilated convolution of the four sub-grids of even and odd rows and columns; stride 2 reads
    only one of them. Images smaller than the kernel become matrix products. The fast CPU kernels support neither
    dilation, nor such images, nor the gradient of wide kernels.
    """
    size, padding = weight.shape[-1], dilation * (weight.shape[-1] // 2)
    if x.device.type != "cpu" or (stride, dilation) not in _FAST:
        return F.conv2d(x, weight, None, stride, padding, dilation, groups=x.shape[1])
    x, weight = _lowered(x, weight)
    weight = weight.view_as(weight)  # autograd does not tell whether the gradient of a leaf is needed
    if -(-min(x.shape[2:]) // dilation) < size and x.shape[2] * x.shape[3] <= _SMALL:
        return _small_depthwise(x, weight, stride, dilation)
    if dilation == 1:
        return apply(_Depthwise, x, weight)
    if stride == 2:
        return apply(_Depthwise, x[:, :, ::2, ::2], weight)
    if x.shape[2] % 2 or x.shape[3] % 2:
        return F.conv2d(x, weight, None, 1, padding, 2, groups=x.shape[1])
    return _from_subgrids(apply(_Depthwise, _to_subgrids(x), weight))


_FAST = {(1, 1), (1, 2), (2, 2)}
_SMALL = 100


def average_pool(x: Tensor, stride: int = 1) -> Tensor:
    """Average 3×3 windows without counting the padding, as ``avg_pool2d(x, 3, stride, 1, count_include_pad=False)``.

    On the CPU it is a depthwise convolution with ones, divided by the number of real pixels: ten times faster.
    """
    if x.device.type != "cpu":
        return F.avg_pool2d(x, 3, stride, 1, count_include_pad=False)
    (x,) = _lowered(x)
    channels, kernel = x.shape[1], x.new_ones(x.shape[1], 1, 3, 3)
    ones = torch.ones_like(x[:1])
    if stride == 1:
        return apply(_Depthwise, x, kernel) / apply(_Depthwise, ones, kernel)
    total, count = (F.conv2d(tensor, kernel, None, stride, 1, 1, channels) for tensor in (x, ones))
    return total / count


def scaled_norm(norm: nn.BatchNorm2d, x: Tensor, weight: Tensor | None) -> Tensor:
    """Normalize ``x`` by its batch statistics and multiply by the scalar ``weight`` in the same pass."""
    weights = None if weight is None else dense_norm_weight(weight.expand(x.shape[1]))
    return F.batch_norm(x, None, None, weights, None, True, 0.0, norm.eps)


def norm_in_node(norm: nn.BatchNorm2d, x: Tensor, weight: Tensor | None) -> Tensor | PendingNorm:
    """Normalize ``x`` and multiply by the scalar ``weight``; on shards, wait for the other batch norms of the node."""
    if has_joint_statistics():
        return PendingNorm(x, None if weight is None else weight.expand(x.shape[1]), norm.eps)
    return scaled_norm(norm, x, weight)


def mix(addends: Sequence[Tensor], scaled: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    """Return Σ addends + Σ weight·x over the pairs ``(x, weight)`` with scalar weights, in one pass per term.

    The gradient of an addend is that of the output; the gradient of a weight is one dot product.
    """
    if not scaled and len(addends) == 1:
        return addends[0]
    weights = [weight for _, weight in scaled]
    return apply(_Mix, len(scaled), *weights, *_lowered(*(x for x, _ in scaled), *addends))


def _lowered(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Return the tensors in the type of autocast, if that is on: it does not look into functions with own gradients."""
    kind = tensors[0].device.type
    if kind == "meta" or not torch.is_autocast_enabled(kind):
        return tensors
    return tuple(tensor.to(torch.get_autocast_dtype(kind)) for tensor in tensors)


class _Mix(Function):
    """w₁ … wₙ, x₁ … xₙ, y₁ … yₘ ↦ Σ wᵢ·xᵢ + Σ yⱼ."""

    @staticmethod
    def forward(count: int, *inputs: Tensor) -> Tensor:
        weights, tensors, addends = inputs[:count], inputs[count : 2 * count], inputs[2 * count :]
        if count:
            total = tensors[0] * weights[0]
        else:
            total, addends = addends[0] + addends[1], addends[2:]
        for addend in addends:
            total.add_(addend)
        for x, weight in zip(tensors[1:], weights[1:], strict=True):
            total.addcmul_(x, weight)
        return total

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.count = inputs[0]
        ctx.save_for_backward(*inputs[1 : 1 + 2 * ctx.count])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        count, needs = ctx.count, needed_gradients(ctx, first=1)
        saved = ctx.saved_tensors  # unpacked once: recomputed activations allow no second time
        weights, tensors = saved[:count], saved[count:]
        of_weights = [apply(_Inner, x, grad) if need else None for x, need in zip(tensors, needs, strict=False)]
        of_tensors = [_scaled(grad, w) if need else None for w, need in zip(weights, needs[count:], strict=False)]
        return (None, *of_weights, *of_tensors, *(grad if need else None for need in needs[2 * count :]))


def _scaled(x: Tensor, weight: Tensor) -> Tensor:
    return apply(_Scale, x, weight) if torch.is_grad_enabled() else x * weight


class _Bilinear(Function):
    """A function of two tensors that is linear in each, so that its derivatives need both."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[:2])


class _Scale(_Bilinear):
    """x, w ↦ w·x with a scalar w."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor) -> Tensor:
        return x * weight

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        of_x, of_weight = needed_gradients(ctx)
        return _scaled(grad, weight) if of_x else None, apply(_Inner, x, grad) if of_weight else None


class _Inner(_Bilinear):
    """x, y ↦ ⟨x, y⟩."""

    @staticmethod
    def forward(x: Tensor, y: Tensor) -> Tensor:
        pair = _flattened(x, y)
        short = x.dtype in (torch.bfloat16, torch.float16)  # its sums would be as inexact as its numbers
        return torch.dot(*(one.float() for one in pair)) if short else torch.dot(*pair)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, y = ctx.saved_tensors
        return y * grad if ctx.needs_input_grad[0] else None, x * grad if ctx.needs_input_grad[1] else None


def _flattened(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    if x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last):
        x, y = x.permute(0, 2, 3, 1), y.permute(0, 2, 3, 1)
    return x.reshape(-1), y.reshape(-1)


class _Depthwise(_Bilinear):
    """x, w ↦ x ⋆ w with stride 1: y[c, h, v] = Σ w[c, i, j]·x[c, h+i−p, v+j−p]."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor) -> Tensor:
        return F.conv2d(x, weight, None, 1, weight.shape[-1] // 2, 1, groups=x.shape[1])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        of_x, of_weight = needed_gradients(ctx)
        grad_x = apply(_Depthwise, grad, weight.flip(2, 3)) if of_x else None
        return grad_x, apply(_DepthwiseWeight, x, grad, weight.shape[-1]) if of_weight else None


class _DepthwiseWeight(_Bilinear):
    """x, g ↦ the gradient of ⟨g, x ⋆ w⟩ with respect to w, bilinear in x and g."""

    @staticmethod
    def forward(x: Tensor, grad: Tensor, size: int) -> Tensor:
        if size <= 3:
            return _kernel_gradient(x, grad, size, size)
        return _wide_kernel_gradient(x, grad, size)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        x, output_grad = ctx.saved_tensors
        of_x, of_grad, _ = needed_gradients(ctx)
        grad_x = apply(_Depthwise, output_grad, grad.flip(2, 3)) if of_x else None
        return grad_x, apply(_Depthwise, x, grad) if of_grad else None, None


def _kernel_gradient(x: Tensor, grad: Tensor, height: int, width: int) -> Tensor:
    """Return the gradient of ⟨g, x ⋆ w⟩ with respect to the kernel w ``[C, 1, height, width]``."""
    channels = x.shape[1]
    weight, padding = x.new_empty(channels, 1, height, width), [height // 2, width // 2]
    gradient: Tensor = torch.ops.aten.convolution_backward(
        grad, x, weight, None, [1, 1], padding, [1, 1], False, [0, 0], channels, [False, True, False]
    )[1]
    return gradient


def _wide_kernel_gradient(x: Tensor, grad: Tensor, size: int) -> Tensor:
    """Do the same for a wide square kernel, three columns at a time: the vectorized code handles at most three.

    With x padded by p−1 columns on both sides and g by ``first`` columns on the left, a kernel of three columns in the
    middle of its padding sees what the columns first … first+2 of the wide kernel see.
    """
    margin = size // 2 - 1
    padded = F.pad(x, (margin, margin))
    gradient = x.new_empty(x.shape[1], 1, size, size)
    for first in {*range(0, size - 3, 3), size - 3}:
        shifted = F.pad(grad, (first, 2 * margin - first))
        gradient[..., first : first + 3] = _kernel_gradient(padded, shifted, size, 3)
    return gradient


def _to_subgrids(x: Tensor) -> Tensor:
    """``[N, C, H, W]`` → ``[4N, C, H/2, W/2]``: even and odd rows and columns as images of their own."""
    n, c, h, w = x.shape
    grid = x.permute(0, 2, 3, 1).reshape(n, h // 2, 2, w // 2, 2, c)
    return grid.permute(2, 4, 0, 1, 3, 5).reshape(4 * n, h // 2, w // 2, c).permute(0, 3, 1, 2)


def _from_subgrids(y: Tensor) -> Tensor:
    """Undo :func:`_to_subgrids`."""
    n, c, h, w = y.shape
    grid = y.permute(0, 2, 3, 1).reshape(2, 2, n // 4, h, w, c)
    return grid.permute(2, 3, 0, 4, 1, 5).reshape(n // 4, 2 * h, 2 * w, c).permute(0, 3, 1, 2)


def _small_depthwise(x: Tensor, weight: Tensor, stride: int, dilation: int) -> Tensor:
    """Convolve tiny images by one matrix per channel: y[c] = x[c]·A[c], where A[c] holds the taps of the kernel."""
    n, c, h, w = x.shape
    find_taps = _taps if torch.compiler.is_compiling() else _kept_taps  # a traced tensor must not outlive its trace
    taps = find_taps(h, w, weight.shape[-1], stride, dilation).to(weight)
    matrices = (weight.reshape(c, -1) @ taps).reshape(c, h * w, -1)
    outputs = torch.bmm(x.permute(1, 0, 2, 3).reshape(c, n, h * w), matrices)
    grid = outputs.reshape(c, n, -(-h // stride), -(-w // stride))
    return grid.permute(1, 0, 2, 3).contiguous(memory_format=torch.channels_last)


def _taps(h: int, w: int, size: int, stride: int, dilation: int) -> Tensor:
    """Return ``[k·k, inputs·outputs]``: one where this tap of the kernel carries this input pixel to this output."""
    with torch.inference_mode(False):  # the cached tensor may be used where gradients are recorded
        rows, columns = (_offsets(length, size, stride, dilation) for length in (h, w))
        taps = torch.einsum("aiy,bjx->abijyx", rows, columns)
        return taps.reshape(size * size, -1)


_kept_taps = functools.lru_cache(maxsize=64)(_taps)


def _offsets(length: int, size: int, stride: int, dilation: int) -> Tensor:
    """Return the same in one dimension, ``[k, inputs, outputs]``."""
    tap, source = torch.arange(size)[:, None, None], torch.arange(length)[None, :, None]
    target = torch.arange(0, length, stride)[None, None, :]
    return (target + dilation * (tap - size // 2) == source).float()
