from __future__ import annotations

from itertools import product

import pytest
import torch
import torch.nn.functional as F
from each_of import each_of
from torch import Tensor, nn
from torch.autograd import gradcheck, gradgradcheck

from archgrad.operations.kernels import average_pool, depthwise_conv, mix, scaled_norm

LAYOUTS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}
layouts = pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
STRIDES = [(1, 1), (1, 2), (2, 1), (2, 2), (1, 3), (3, 1)]
SIZES = [(8, 8), (7, 7), (8, 5), (5, 8), (1, 1), (2, 3)]


def images(*shape: int, seed: int = 0, layout: torch.memory_format = torch.contiguous_format) -> Tensor:
    values = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return values.contiguous(memory_format=layout).requires_grad_()


def same(actual: Tensor, expected: Tensor, *inputs: Tensor) -> None:
    """Compare values, gradients, and the gradients of a function of the gradients."""
    weights = torch.randn(expected.shape, generator=torch.Generator().manual_seed(9), dtype=expected.dtype)
    torch.testing.assert_close(actual, expected)
    first = torch.autograd.grad((actual * weights).sin().sum(), inputs, create_graph=True)
    wanted = torch.autograd.grad((expected * weights).sin().sum(), inputs, create_graph=True)
    torch.testing.assert_close(first, wanted)
    second = torch.autograd.grad(sum(value.square().sum() for value in first), inputs)
    torch.testing.assert_close(second, torch.autograd.grad(sum(value.square().sum() for value in wanted), inputs))


@layouts
@pytest.mark.parametrize("kernel", [1, 3, 5, 7])
def test_depthwise_conv_is_the_textbook_convolution(kernel: int, layout: torch.memory_format) -> None:
    @each_of(product(STRIDES, SIZES))
    def check(strides: tuple[int, int], size: tuple[int, int]) -> None:
        (stride, dilation), x = strides, images(2, 3, *size, layout=layout)
        weight = images(3, 1, kernel, kernel, seed=1)
        expected = F.conv2d(x, weight, None, stride, dilation * (kernel // 2), dilation, groups=3)
        same(depthwise_conv(x, weight, stride, dilation), expected, x, weight)

    check()


def test_depthwise_conv_of_small_images_after_inference() -> None:
    x, weight = images(2, 3, 3, 4), images(3, 1, 5, 5, seed=1)
    with torch.inference_mode():
        silent = depthwise_conv(x, weight)
    expected = F.conv2d(x, weight, None, 1, 2, groups=3)
    torch.testing.assert_close(silent, expected.detach())
    same(depthwise_conv(x, weight), expected, x, weight)


@pytest.mark.parametrize("wanted", [(True, False), (False, True)], ids=["input", "weight"])
def test_depthwise_conv_computes_only_the_gradients_asked_for(wanted: tuple[bool, bool]) -> None:
    x, weight = images(2, 3, 6, 6), images(3, 1, 5, 5, seed=1)
    x.requires_grad_(wanted[0])
    weight.requires_grad_(wanted[1])
    chosen = [tensor for tensor in (x, weight) if tensor.requires_grad]
    same(depthwise_conv(x, weight), F.conv2d(x, weight, None, 1, 2, groups=3), *chosen)


@layouts
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("stride", [1, 2])
def test_average_pool_does_not_count_the_padding(
    stride: int, size: tuple[int, int], layout: torch.memory_format
) -> None:
    x = images(2, 3, *size, layout=layout)
    same(average_pool(x, stride), F.avg_pool2d(x, 3, stride, 1, count_include_pad=False), x)


def scalars(*values: float) -> list[Tensor]:
    return [torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in values]


@layouts
@pytest.mark.parametrize(("addends", "scaled"), [(0, 1), (0, 3), (1, 0), (1, 1), (2, 0), (2, 2), (4, 3)])
def test_mix_is_the_weighted_sum(layout: torch.memory_format, addends: int, scaled: int) -> None:
    tensors = [images(2, 2, 3, 2, layout=layout, seed=seed) for seed in range(addends + scaled)]
    weights = scalars(*(0.3 - 0.7 * index for index in range(scaled)))
    expected = sum(tensors[:addends], torch.zeros(()))
    for x, weight in zip(tensors[addends:], weights, strict=True):
        expected = expected + weight * x

    def mixed(*inputs: Tensor) -> Tensor:
        return mix(
            inputs[:addends], list(zip(inputs[addends : addends + scaled], inputs[addends + scaled :], strict=True))
        )

    same(mixed(*tensors, *weights), expected, *tensors, *weights)
    assert gradcheck(mixed, (*tensors, *weights))
    assert gradgradcheck(mixed, (*tensors, *weights))


def test_mix_leaves_its_inputs_alone() -> None:
    tensors, (weight,) = [images(2, 3, 5, 4, seed=seed) for seed in range(3)], scalars(0.5)
    before = [tensor.detach().clone() for tensor in tensors]
    mix(tensors[:2], [(tensors[2], weight)]).sum().backward()
    assert all(torch.equal(tensor, copy) for tensor, copy in zip(tensors, before, strict=True))


def test_mix_with_a_gradient_of_another_layout() -> None:
    x, (weight,) = images(2, 3, 5, 4, layout=torch.channels_last), scalars(0.3)
    other = images(2, 3, 5, 4, seed=1).detach()
    (gradient,) = torch.autograd.grad(mix([], [(x, weight)]), weight, other)
    torch.testing.assert_close(gradient, (x * other).sum())


@layouts
def test_scaled_norm_is_batch_norm_times_the_weight(layout: torch.memory_format) -> None:
    norm = nn.BatchNorm2d(5, affine=False, track_running_stats=False)
    x, weight = images(3, 5, 4, 3, layout=layout), torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    same(scaled_norm(norm, x, weight), norm(x) * weight, x, weight)


@pytest.mark.parametrize("channels", [16, 64, 256])
def test_scaled_norm_hands_the_channels_last_gradient_a_weight_of_full_length(channels: int) -> None:
    """That gradient reads one number per channel, which a scalar expanded without memory does not have."""
    norm = nn.BatchNorm2d(channels, affine=False, track_running_stats=False)
    x = images(4, channels, 6, 6, layout=torch.channels_last).detach().float().requires_grad_()
    weight = torch.tensor([0.25, 1e30])[0].requires_grad_()  # what stands behind it in memory is no weight
    other = images(4, channels, 6, 6, seed=1).detach().float().contiguous(memory_format=torch.channels_last)
    actual = torch.autograd.grad(scaled_norm(norm, x, weight), (x, weight), other)
    expected = torch.autograd.grad(norm(x) * weight, (x, weight), other)
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)


def test_an_export_leaves_no_traced_tensors_behind() -> None:
    class Convolution(torch.nn.Module):
        def forward(self, x: Tensor, weight: Tensor) -> Tensor:
            return depthwise_conv(x, weight, 1, 2)

    x, weight = torch.randn(1, 2, 3, 3), torch.randn(2, 1, 5, 5)
    torch.export.export(Convolution(), (x, weight))
    assert type(depthwise_conv(x, weight, 1, 2)) is Tensor
