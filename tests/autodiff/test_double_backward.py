from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import gradcheck, gradgradcheck

from archgrad.autodiff.batch_norm import batch_norm
from archgrad.autodiff.convolution import ConvSettings, convolution
from archgrad.autodiff.double_backward import TwiceDifferentiable
from archgrad.autodiff.functions import needed_gradients
from archgrad.operations.kernels import depthwise_conv, mix, scaled_norm

LAYOUTS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}
layouts = pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
EPS = 1e-5
GEOMETRIES = {
    "pointwise": (1, ConvSettings((1, 1), (0, 0), (1, 1), 1)),
    "plain": (3, ConvSettings((1, 1), (1, 1), (1, 1), 1)),
    "strided": (3, ConvSettings((2, 2), (1, 1), (1, 1), 1)),
    "dilated": (3, ConvSettings((1, 1), (2, 2), (2, 2), 1)),
    "grouped": (3, ConvSettings((2, 1), (1, 0), (1, 2), 2)),
}
conv_settings = pytest.mark.parametrize(("size", "settings"), GEOMETRIES.values(), ids=GEOMETRIES)


def values(
    *shape: int,
    seed: int = 0,
    layout: torch.memory_format = torch.contiguous_format,
    dtype: torch.dtype = torch.float64,
) -> Tensor:
    drawn = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)
    return (drawn.contiguous(memory_format=layout) if drawn.dim() == 4 else drawn).requires_grad_()


def native_norm(x: Tensor, weight: Tensor | None) -> Tensor:
    return F.batch_norm(x, None, None, weight, None, True, 0.0, EPS)


def textbook_norm(x: Tensor, weight: Tensor | None) -> Tensor:
    centered = x - x.mean((0, 2, 3), keepdim=True)
    unit = centered / (centered.square().mean((0, 2, 3), keepdim=True) + EPS).sqrt()
    return unit if weight is None else unit * weight.view(-1, 1, 1)


def native_convolution(x: Tensor, weight: Tensor, settings: ConvSettings) -> Tensor:
    return F.conv2d(x, weight, None, settings.stride, settings.padding, settings.dilation, settings.groups)


def derivatives(output: Tensor, inputs: Sequence[Tensor], order: int) -> list[Tensor]:
    """Return the gradients of a function of the output, of a function of those, and so on; the last without a graph."""
    found: list[Tensor] = []
    value = (output * torch.linspace(-1, 2, output.numel(), dtype=output.dtype).view(output.shape)).sin().sum()
    for step in range(order):
        gradients = torch.autograd.grad(value, list(inputs), create_graph=step < order - 1)
        value = torch.stack([gradient.sin().square().sum() for gradient in gradients]).sum()
        found += gradients
    return found


@layouts
@pytest.mark.parametrize("shape", [(2, 3, 3, 2), (5, 2, 1, 1), (1, 17, 2, 2)], ids=str)
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_batch_norm_has_the_derivatives_of_the_formula(
    shape: tuple[int, ...], weighted: bool, order: int, layout: torch.memory_format
) -> None:
    x, weight = values(*shape, layout=layout), values(shape[1], seed=1) if weighted else None
    inputs = [x] if weight is None else [x, weight]
    actual, expected = batch_norm(x, weight, EPS), textbook_norm(x, weight)
    torch.testing.assert_close(actual, expected)
    torch.testing.assert_close(derivatives(actual, inputs, order), derivatives(expected, inputs, order))


@layouts
def test_gradient_of_the_weight_alone_can_be_differentiated(layout: torch.memory_format) -> None:
    x, weight, other = values(3, 2, 2, 3, layout=layout), values(2, seed=1), values(3, 2, 2, 3, seed=2)
    found = []
    for output in (batch_norm(x, weight, EPS), textbook_norm(x, weight)):
        (gradient,) = torch.autograd.grad(output, weight, other, create_graph=True)
        found.append(torch.autograd.grad(gradient.square().sum(), [x, other]))
    torch.testing.assert_close(found[0], found[1])


@layouts
@pytest.mark.parametrize("shape", [(8, 4, 8, 8), (4, 16, 6, 5), (2, 33, 3, 3)], ids=str)
@pytest.mark.parametrize("weighted", [True, False])
def test_batch_norm_is_the_native_one_bit_by_bit(
    shape: tuple[int, ...], weighted: bool, layout: torch.memory_format
) -> None:
    x, other = (values(*shape, seed=seed, layout=layout, dtype=torch.float32) for seed in (0, 1))
    weight = values(shape[1], seed=2, dtype=torch.float32) if weighted else None
    inputs = [x] if weight is None else [x, weight]
    actual, expected = batch_norm(x, weight, EPS), native_norm(x, weight)
    assert torch.equal(actual, expected)
    for graph in (True, False):
        pairs = (torch.autograd.grad(y, inputs, other, create_graph=graph) for y in (actual, expected))
        assert all(torch.equal(mine, native) for mine, native in zip(*pairs, strict=True))


def test_batch_norm_with_a_bias_agrees_with_differences_and_is_the_native_one() -> None:
    x, weight, bias = values(3, 2, 2, 3), values(2, seed=1), values(2, seed=2)
    assert gradcheck(lambda x, w, b: batch_norm(x, w, EPS, b), (x, weight, bias))
    assert gradgradcheck(lambda x, w, b: batch_norm(x, w, EPS, b), (x, weight, bias))
    assert gradgradcheck(lambda x, b: batch_norm(x, None, EPS, b), (x, bias))
    actual, expected = batch_norm(x, weight, EPS, bias), F.batch_norm(x, None, None, weight, bias, True, 0.0, EPS)
    assert torch.equal(actual, expected)
    found, wanted = (torch.autograd.grad(y.sin().sum(), (x, weight, bias)) for y in (actual, expected))
    assert all(map(torch.equal, found, wanted))


def test_batch_norm_reads_no_expanded_weight_beyond_its_end() -> None:
    x = values(4, 64, 6, 6, layout=torch.channels_last, dtype=torch.float32)
    weight = torch.tensor([0.25, 1e30])[0].requires_grad_()
    first = torch.autograd.grad(batch_norm(x, weight.expand(64), EPS).square().sum(), x, create_graph=True)[0]
    expected = torch.autograd.grad(textbook_norm(x, weight.expand(64)).square().sum(), x, create_graph=True)[0]
    torch.testing.assert_close(first, expected, rtol=1e-4, atol=1e-4)
    second = (torch.autograd.grad((gradient * x.detach()).sum(), [x, weight]) for gradient in (first, expected))
    torch.testing.assert_close(next(second), next(second), rtol=1e-3, atol=1e-3)


@layouts
@conv_settings
@pytest.mark.parametrize("order", [1, 2, 3])
def test_convolution_has_the_derivatives_of_the_native_one(
    size: int, settings: ConvSettings, order: int, layout: torch.memory_format
) -> None:
    x, weight = values(2, 4, 5, 6, layout=layout), values(6, 4 // settings.groups, size, size, seed=1, layout=layout)
    actual, expected = convolution(x, weight, settings), native_convolution(x, weight, settings)
    torch.testing.assert_close(actual, expected)
    torch.testing.assert_close(derivatives(actual, [x, weight], order), derivatives(expected, [x, weight], order))


@layouts
@conv_settings
def test_convolution_is_the_native_one_bit_by_bit(
    size: int, settings: ConvSettings, layout: torch.memory_format
) -> None:
    x = values(4, 8, 9, 8, layout=layout, dtype=torch.float32)
    weight = values(8, 8 // settings.groups, size, size, seed=1, layout=layout, dtype=torch.float32)
    actual, expected = convolution(x, weight, settings), native_convolution(x, weight, settings)
    assert torch.equal(actual, expected)
    other = torch.randn_like(expected)
    pairs = (torch.autograd.grad(y, [x, weight], other) for y in (actual, expected))
    assert all(torch.equal(mine, native) for mine, native in zip(*pairs, strict=True))


@pytest.mark.parametrize("kept", [0, 1], ids=["input", "weight"])
def test_convolution_with_one_variable(kept: int) -> None:
    size, settings = GEOMETRIES["strided"]
    inputs = values(2, 4, 5, 6), values(6, 4, size, size, seed=1)
    outputs = convolution(*inputs, settings), native_convolution(*inputs, settings)
    found = [torch.autograd.grad(output.sin().sum(), inputs[kept], create_graph=True)[0] for output in outputs]
    actual, expected = (torch.autograd.grad(gradient.square().sum(), inputs) for gradient in found)
    torch.testing.assert_close(actual, expected)


def network(x: Tensor, conv: Tensor, depthwise: Tensor, mixture: Tensor) -> Tensor:
    norm = nn.BatchNorm2d(4, affine=False, track_running_stats=False)
    first = scaled_norm(norm, F.conv2d(F.relu(norm(x)), conv, padding=1), mixture[0])
    second = norm(F.conv2d(depthwise_conv(x, depthwise), conv, stride=2, padding=1))
    return mix([first[:, :, ::2, ::2], second], [(x[:, :, ::2, ::2], mixture[1])])


def test_everything_inside_keeps_its_derivatives() -> None:
    x, conv = values(3, 4, 6, 6, layout=torch.channels_last), values(4, 4, 3, 3, seed=1)
    inputs = x, conv, values(4, 1, 3, 3, seed=2), values(2, seed=3)
    with TwiceDifferentiable():
        actual = network(*inputs)
    assert {"_NormBackward", "_ConvolutionBackward"} <= names_below(actual)
    # Not three times: the third derivatives of the native batch norm take its statistics for constants.
    torch.testing.assert_close(derivatives(actual, inputs, 2), derivatives(network(*inputs), inputs, 2))


def test_products_with_some_variables_are_those_with_all() -> None:
    x, weights = values(3, 4, 6, 6), [values(4, 4, 3, 3, seed=1), values(4, 1, 3, 3, seed=2)]
    mixture = values(2, seed=3)
    with TwiceDifferentiable():
        value = network(x, *weights, mixture).sin().sum()
    gradient = torch.autograd.grad(value, weights, create_graph=True)
    directions = [torch.randn_like(weight) for weight in weights]
    everything = torch.autograd.grad(gradient, [*weights, mixture], directions, retain_graph=True)
    for place, variable in enumerate([*weights, mixture]):
        (alone,) = torch.autograd.grad(gradient, [variable], directions, retain_graph=True)
        assert torch.equal(alone, everything[place])


def names_below(tensor: Tensor) -> set[str]:
    """Return the names of all nodes of the graph that made a tensor."""
    found, todo = set(), [tensor.grad_fn]
    while todo:
        node = todo.pop()
        if node is not None and node not in found:
            found.add(node)
            todo += [following for following, _ in node.next_functions]
    return {node.name() for node in found}


UNTOUCHED: dict[str, Callable[[Tensor], Tensor]] = {
    "affine": lambda x: nn.BatchNorm2d(4, dtype=x.dtype)(x),
    "evaluating": lambda x: nn.BatchNorm2d(4, dtype=x.dtype).eval()(x),
    "vectors": lambda x: F.batch_norm(x.mean((2, 3)), None, None, training=True),
    "bias": lambda x: nn.Conv2d(4, 2, 1, dtype=x.dtype)(x),
    "same": lambda x: nn.Conv2d(4, 2, 3, padding="same", bias=False, dtype=x.dtype)(x),
    "one dimension": lambda x: F.conv1d(x[..., 0], x.new_ones(2, 4, 1)),
    "half": lambda x: F.batch_norm(x.bfloat16(), None, None, training=True),
}


@pytest.mark.parametrize("function", UNTOUCHED.values(), ids=UNTOUCHED)
def test_what_it_does_not_know_stays_native(function: Callable[[Tensor], Tensor]) -> None:
    with TwiceDifferentiable():
        output = function(values(2, 4, 3, 3))
    assert not {"_NormBackward", "_ConvolutionBackward"} & names_below(output)


def test_a_single_pixel_is_refused_as_always() -> None:
    x = values(1, 4, 1, 1)
    with TwiceDifferentiable(), pytest.raises(ValueError, match="more than 1 value per channel"):
        F.batch_norm(x, None, None, training=True)


def test_torch_func_differentiates_twice() -> None:
    x, weight = values(3, 2, 2, 2).detach(), values(2, seed=1).detach()

    def gradient(x: Tensor) -> Tensor:
        found: Tensor = torch.func.grad(lambda x: batch_norm(x, weight, EPS).sin().sum())(x)
        return found

    expected = derivatives_by_func(lambda x: textbook_norm(x, weight).sin().sum(), x)
    torch.testing.assert_close(torch.func.grad(lambda x: gradient(x).square().sum())(x), expected)


def derivatives_by_func(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    found: Tensor = torch.func.grad(lambda x: torch.func.grad(function)(x).square().sum())(x)
    return found


class _Notes(torch.autograd.Function):
    """x, y ↦ x·y, noting which gradients the backward pass reads."""

    seen: list[list[bool]]

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, x: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx: torch.autograd.function.BackwardCFunction, grad: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        _Notes.seen.append(needed_gradients(ctx))
        x, y = ctx.saved_tensors
        return grad * y, grad * x


def test_needed_gradients_are_those_that_are_asked_for() -> None:
    _Notes.seen = []
    x, y = values(2), values(2, seed=1)
    output = _Notes.apply(x.view(2), y.view(2)).sum()  # type: ignore[no-untyped-call]
    for asked in ([x], [y], [x, y]):
        torch.autograd.grad(output, asked, retain_graph=True)
    output.backward()
    assert _Notes.seen == [[True, False], [False, True], [True, True], [True, True]]
