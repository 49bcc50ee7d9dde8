"""One suite that every operation of every published vocabulary passes; a new vocabulary is one row."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from archgrad.operations import (
    AveragePool,
    DepthwiseConv2d,
    FactorizedReduce,
    MaxPool,
    Noise,
    Operation,
    ReLUConvBN,
    Site,
    Source,
    Vocabulary,
    Weighted,
    Zero,
)
from archgrad.spaces.darts import OPERATIONS as DARTS
from archgrad.spaces.nasbench201 import OPERATIONS as NASBENCH201

VOCABULARIES: dict[str, tuple[Vocabulary, tuple[int, ...]]] = {
    "nasbench201": (NASBENCH201, (1,)),
    "darts": (DARTS, (1, 2)),
}
MEMBERS = [
    pytest.param(vocabulary[choice], stride, id=f"{name}-{choice}-{stride}")
    for name, (vocabulary, strides) in VOCABULARIES.items()
    for choice in vocabulary
    for stride in strides
]
members = pytest.mark.parametrize(("factory", "stride"), MEMBERS)
CHANNELS = 6


def operation(factory: object, stride: int, searching: bool = True, seed: int = 0) -> Operation:
    torch.manual_seed(seed)
    return factory(Site(CHANNELS, stride, searching)).double()  # type: ignore[operator,no-any-return]


def images(height: int = 6, width: int = 6) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(3, CHANNELS, height, width, generator=generator, dtype=torch.float64).requires_grad_()


def weight(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float64, requires_grad=True)


def mixed(candidate: Operation, x: Tensor, w: Tensor) -> Tensor:
    """What the operation adds to a node: zeros where it adds nothing."""
    term = candidate.mixed(Source(x, (3,)), w)
    if isinstance(term, Weighted):
        term = term.tensor * term.weight
    return candidate(x) * w if term is None else term


def plain(candidate: Operation, x: Tensor, w: Tensor) -> Tensor:
    """The definition: w · o(x), with the noise of the supernet's stream."""
    if isinstance(candidate, Noise):
        return w * mixed(candidate, x, weight(1.0)).detach()
    return w * candidate(x)  # type: ignore[no-any-return]


@members
@pytest.mark.parametrize("size", [(6, 6), (7, 7), (5, 8), (1, 1)], ids=str)
def test_mixed_is_the_weighted_operation(factory: object, stride: int, size: tuple[int, int]) -> None:
    candidate, x, w = operation(factory, stride), images(*size), weight(0.3)
    actual, expected = mixed(candidate, x, w), plain(candidate, x, w)
    assert actual.shape == (3, CHANNELS, math.ceil(size[0] / stride), math.ceil(size[1] / stride))
    torch.testing.assert_close(actual, expected)
    inputs = (x, w, *candidate.parameters())
    direction = torch.randn(actual.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    if expected.requires_grad:
        first, second = (
            torch.autograd.grad(output, inputs, direction, allow_unused=True, materialize_grads=True)
            for output in (actual, expected)
        )
        torch.testing.assert_close(first, second)


@members
def test_search_mode_is_pure(factory: object, stride: int) -> None:
    candidate, x, w = operation(factory, stride), images(), weight(0.3)
    assert not list(candidate.buffers())
    assert not any(module.affine for module in candidate.modules() if isinstance(module, nn.BatchNorm2d))
    before = torch.get_rng_state()
    first = mixed(candidate, x, w)
    assert torch.equal(first, mixed(candidate.eval(), x, w))
    assert torch.equal(before, torch.get_rng_state())


@members
def test_plain_mode_has_affine_norms_with_statistics(factory: object, stride: int) -> None:
    candidate = operation(factory, stride, searching=False)
    norms = [module for module in candidate.modules() if isinstance(module, nn.BatchNorm2d)]
    assert all(norm.affine and norm.track_running_stats for norm in norms)
    assert bool(norms) == any(isinstance(module, nn.Conv2d) for module in candidate.modules())
    candidate(images())
    assert all(norm.running_mean.any() for norm in norms)


@members
def test_both_modes_compute_the_same_at_the_start(factory: object, stride: int) -> None:
    searching, fixed = operation(factory, stride), operation(factory, stride, searching=False)
    fixed.load_state_dict(searching.state_dict(), strict=False)
    # A supernet may normalize its pools, a plain network never does.
    compute = searching.pool if isinstance(searching, AveragePool | MaxPool) else searching
    torch.manual_seed(3)
    expected = compute(images())
    torch.manual_seed(3)
    torch.testing.assert_close(fixed(images()), expected)


@members
def test_nothing_depends_on_whether_gradients_are_recorded(factory: object, stride: int) -> None:
    candidate, x, w = operation(factory, stride), images(), weight(0.3)
    with torch.no_grad():
        silent = mixed(candidate, x, w)
    torch.testing.assert_close(silent, mixed(candidate, x, w).detach())


def test_an_operation_of_ones_own_only_needs_a_forward() -> None:
    class Twice(Operation):
        def forward(self, x: Tensor) -> Tensor:
            return 2 * x

    x, w = images(), weight(0.5)
    (gradient,) = torch.autograd.grad(mixed(Twice(), x, w).sum(), w)
    torch.testing.assert_close(mixed(Twice(), x, w), x)
    torch.testing.assert_close(gradient, 2 * x.sum())


def test_convolutions_share_one_relu(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    relu = F.relu
    candidates = [operation(DARTS[name], 1) for name in ("dil_conv_3x3", "dil_conv_5x5")]
    candidates += [operation(NASBENCH201[name], 1) for name in ("nor_conv_1x1", "nor_conv_3x3")]
    monkeypatch.setattr(F, "relu", lambda x: calls.append(x) or relu(x))
    source = Source(images())
    for candidate in candidates:
        candidate.mixed(source, weight(0.2))
    assert len(calls) == 1
    assert source.relu() is source.relu()


@pytest.mark.parametrize("kind", [AveragePool, MaxPool])
def test_equal_pools_of_one_source_are_computed_once(kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    pool = kind.pool
    monkeypatch.setattr(kind, "pool", lambda self, x: calls.append(x) or pool(self, x))
    source, site = Source(images()), Site(CHANNELS)
    for normed in (False, False, True, True):
        kind(site, normed).mixed(source, weight(0.2))
    assert len(calls) == 2
    kind(Site(CHANNELS, 2), True).mixed(source, weight(0.2))
    assert len(calls) == 3


def test_average_and_max_pools_are_not_confused() -> None:
    source, site = Source(images()), Site(CHANNELS)
    average, largest = (kind(site).mixed(source, weight(1.0)).tensor for kind in (AveragePool, MaxPool))
    assert (largest >= average).all()
    assert not torch.equal(average, largest)


def test_zero_adds_nothing() -> None:
    assert Zero(Site(CHANNELS, 2)).mixed(Source(images()), weight(1.0)) is None
    assert Zero(Site(CHANNELS, 2))(images()).shape == (3, CHANNELS, 3, 3)


def test_noise_is_a_function_of_stream_and_salt() -> None:
    def draw(stream: tuple[int | str, ...], salt: int) -> Tensor:
        return mixed_noise(Noise(Site(CHANNELS, salt=salt)), stream)

    def mixed_noise(noise: Noise, stream: tuple[int | str, ...]) -> Tensor:
        return noise.mixed(Source(images(), stream), weight(1.0)).tensor

    assert torch.equal(draw((0, "normal", 1), 2), draw((0, "normal", 1), 2))
    different = [draw((0, "normal", 1), 2), draw((1, "normal", 1), 2), draw((0, "reduce", 1), 2)]
    different += [draw((0, "normal", 2), 2), draw((0, "normal", 1), 3)]
    assert len({tuple(noise.flatten().tolist()) for noise in different}) == len(different)


@pytest.mark.parametrize("channels", [2, 5, 6])
@pytest.mark.parametrize("size", [1, 6, 7])
def test_factorized_reduce_reads_even_and_odd_pixels(channels: int, size: int) -> None:
    torch.manual_seed(0)
    module = FactorizedReduce(CHANNELS, Site(channels, 2)).double()
    x = images(size, size)
    rectified = F.relu(x)
    half = channels // 2
    body = module.body(rectified)
    torch.testing.assert_close(body[:, :half], module.even(rectified[:, :, ::2, ::2]))
    rows = torch.arange(1, size + 1, 2)
    for row in rows.tolist():
        for column in rows.tolist():
            inside = row < size and column < size
            pixel = rectified[:, :, row, column] if inside else torch.zeros(3, CHANNELS, dtype=torch.float64)
            expected = pixel @ module.odd.weight[:, :, 0, 0].T
            torch.testing.assert_close(body[:, half:, row // 2, column // 2], expected)


@members
def test_no_pointwise_convolution_has_a_stride(factory: object, stride: int) -> None:
    """PyTorch's own corrupts memory: weight gradient on a CPU, channels-last, less than eight input channels."""
    for candidate in (operation(factory, stride), ReLUConvBN(CHANNELS, Site(CHANNELS, stride), 1)):
        convolutions = [module for module in candidate.modules() if isinstance(module, nn.Conv2d)]
        assert all(module.stride == (1, 1) for module in convolutions if module.kernel_size == (1, 1))


@pytest.mark.parametrize("size", [6, 7])
@pytest.mark.parametrize("kernel", [1, 3])
def test_convolutions_have_the_stride_of_their_site(kernel: int, size: int) -> None:
    torch.manual_seed(0)
    module, x = ReLUConvBN(CHANNELS, Site(4, 2), kernel).double(), images(size, size)
    expected = F.conv2d(F.relu(x), module.conv.weight, None, 2, kernel // 2)
    torch.testing.assert_close(module.body(F.relu(x)), expected)


@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (2, 1), (1, 2), (2, 2)])
def test_depthwise_conv_module_is_a_plain_conv2d(stride: int, dilation: int) -> None:
    torch.manual_seed(0)
    module = DepthwiseConv2d(CHANNELS, 5, stride, dilation).double()
    expected = nn.Conv2d.forward(module, images())
    torch.testing.assert_close(module(images()), expected)
    with torch.no_grad():
        assert torch.equal(module(images()), expected)
