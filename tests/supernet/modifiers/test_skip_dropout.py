"""Skip dropout (P-DARTS): only on skip connections, right in frequency and scale, and a function of the seed alone."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from archgrad.errors import UserError
from archgrad.operations import FactorizedReduce, Identity, Operation, Site
from archgrad.spaces import SPACES
from archgrad.supernet import CellMixture, Edge, MixedCell, SupernetOptions
from archgrad.supernet.modifiers.skip_dropout import kept_elements
from tests.supernet.supernets import LABELS, Mixture, images, mixture_of, space_of, supernet_of

every_space = pytest.mark.parametrize("name", SPACES)


class Triple(Operation):
    def forward(self, x: Tensor) -> Tensor:
        return 3 * x


def node_of(
    operations: tuple[Operation, ...], x: Tensor, rate: float, seed: int = 0, weight: float = 0.5, **settings: Any
) -> Tensor:
    """Run a cell of one edge whose operations all have this weight."""
    stride = 2 if isinstance(operations[0], FactorizedReduce) else 1
    cell = MixedCell([Edge(0, 1, operations, stride)], inputs=1, nodes=2).to(x.dtype)
    weights = [torch.tensor(weight, dtype=x.dtype) for _ in operations]
    return cell([x], CellMixture([weights], (seed, "cell", 0), skip_dropout=rate, **settings))[1]


# --- what is dropped -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [0.1, 0.4, 0.7])
def test_numbers_are_dropped_with_the_rate_and_the_rest_is_scaled(rate: float) -> None:
    like = torch.zeros(10, 8, 16, 16)
    factors = kept_elements(like, rate, torch.Generator().manual_seed(0))
    assert factors.shape == like.shape
    torch.testing.assert_close(factors.unique(), torch.tensor([0.0, 1 / (1 - rate)]))
    deviation = (rate * (1 - rate) / like.numel()) ** 0.5
    assert abs((factors == 0).double().mean().item() - rate) < 4 * deviation
    for axis in range(4):  # every number alone: the means over any axis differ
        assert factors.mean(axis).std() > 0


def test_the_precision_of_the_network_does_not_change_what_is_dropped() -> None:
    single, double = (
        kept_elements(torch.zeros(3, 4, 5, 5, dtype=dtype), 0.5, torch.Generator().manual_seed(3))
        for dtype in (torch.float32, torch.float64)
    )
    assert double.dtype == torch.float64
    assert torch.equal(single.double(), double)


@pytest.mark.parametrize("stride", [1, 2])
def test_the_expectation_is_the_network_without(stride: int) -> None:
    torch.manual_seed(0)
    skip = Identity() if stride == 1 else FactorizedReduce(2, Site(2, 2))
    count, rate = 4000, 0.3
    x = torch.randn(1, 2, 4, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64).repeat(count, 1, 1, 1)
    plain, mean = (node_of((skip,), x, chance).mean(0) for chance in (0.0, rate))
    deviation = plain.abs() * (rate / (1 - rate) / count) ** 0.5  # of m·y with var(m) = rate/(1 − rate)
    assert ((mean - plain).abs() < 5 * deviation).all()


def test_every_number_of_a_skip_is_kept_or_gone_and_no_other_operation_is_touched() -> None:
    x = 1 + torch.rand(8, 3, 5, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    alone = (node_of((Identity(),), x, 0.4) / (0.5 * x)).round(decimals=9)
    assert alone.unique().tolist() == pytest.approx([0.0, 1 / 0.6])
    beside = node_of((Identity(), Triple()), x, 0.4)
    torch.testing.assert_close(beside, 0.5 * x * alone + 1.5 * x)
    assert torch.equal(node_of((Triple(),), x, 0.4), node_of((Triple(),), x, 0.0))


def test_mixtures_of_single_images_are_dropped_alike() -> None:
    x = torch.randn(3, 2, 4, 4, generator=torch.Generator().manual_seed(1))
    cell = MixedCell([Edge(0, 1, (Identity(),))], inputs=1, nodes=2)
    each = CellMixture([[torch.full((3,), 0.5)]], (0, "cell", 0), by_image=True, skip_dropout=0.4)
    torch.testing.assert_close(cell([x], each)[1], node_of((Identity(),), x, 0.4))


def test_the_two_kinds_of_dropping_are_drawn_apart() -> None:
    x = torch.ones(16, 2, 3, 3)
    both = node_of((Identity(), Triple()), x, 0.4, drop_path=0.5)
    skipped, dropped = node_of((Identity(),), x, 0.4), node_of((Identity(), Triple()), x, 0.0, drop_path=0.5)
    torch.testing.assert_close(both, skipped + dropped - 0.5 * x)
    assert set(dropped.unique().tolist()) == {0.5, 3.5}


# --- whole supernets -----------------------------------------------------------------------------------------------


@every_space
def test_it_is_a_function_of_the_seed(name: str) -> None:
    space = space_of(name)
    net, mixture = supernet_of(space), mixture_of(space)
    state = torch.get_rng_state()
    first, second, other = (net(images(), mixture, seed=seed, skip_dropout=0.5) for seed in (3, 3, 4))
    assert torch.equal(first, second)
    assert torch.equal(state, torch.get_rng_state())
    assert torch.equal(net(images(), mixture, seed=3, skip_dropout=0.0), net(images(), mixture, seed=3))
    if name != "s4" and not name.startswith("nasbench1shot1"):  # which offer no skip connection, and s4 has noise
        assert not torch.equal(first, other)
        assert not torch.equal(first, net(images(), mixture, seed=3))
    else:
        assert torch.equal(first, net(images(), mixture, seed=3))


@every_space
def test_without_weight_on_skips_nothing_is_dropped(name: str) -> None:
    space = space_of(name)
    net, mixture = supernet_of(space), mixture_of(space)
    active = {
        block.name: torch.tensor(
            [[choice != "skip_connect" for choice in (*row.choices, *[""] * (block.shape[1] - len(row.choices)))]
             for row in block.rows]
        ).expand(block.cells, -1, -1)
        for block in space.blocks
    }  # fmt: skip
    plain = net(images(), mixture, active=active, seed=3)
    assert torch.equal(net(images(), mixture, active=active, seed=3, skip_dropout=0.6), plain)


def test_partial_channels_that_go_past_are_spared() -> None:
    """All weight on skips: what goes past them is as without, and some of what they carry is gone."""
    cell = MixedCell([Edge(0, 1, (Identity(),), 1, 2)], inputs=1, nodes=2)
    x = 1 + torch.rand(6, 4, 3, 3, generator=torch.Generator().manual_seed(0))
    node = cell([x], CellMixture([[torch.tensor(1.0)]], (0, "cell", 0), skip_dropout=0.5))[1]
    torch.testing.assert_close(node[:, 1::2], x[:, 2:])  # shuffled: every second channel
    factors = node[:, ::2] / x[:, :2]
    torch.testing.assert_close(factors.unique(), torch.tensor([0.0, 2.0]))


def test_gradients_are_those_of_the_masked_network() -> None:
    """Against differences, in double precision, by the mixture and the weights at the same seed."""
    space = space_of("s2")
    net = supernet_of(space).double()
    x, mixture = images().double(), {key: value.double() for key, value in mixture_of(space).items()}

    def loss(step: float, along: Mixture) -> Tensor:
        moved = {key: value + step * along[key] for key, value in mixture.items()}
        return F.cross_entropy(net(x, moved, seed=5, skip_dropout=0.4), LABELS)

    generator = torch.Generator().manual_seed(7)
    along = {k: torch.randn(v.shape, generator=generator, dtype=torch.float64) for k, v in mixture.items()}
    leaves = {key: value.clone().requires_grad_() for key, value in mixture.items()}
    value = F.cross_entropy(net(x, leaves, seed=5, skip_dropout=0.4), LABELS)
    slopes = torch.autograd.grad(value, list(leaves.values()))
    exact = sum((slope * along[key]).sum() for key, slope in zip(leaves, slopes, strict=True))
    estimate = (loss(1e-6, along) - loss(-1e-6, along)) / 2e-6
    torch.testing.assert_close(torch.as_tensor(exact), estimate, rtol=1e-5, atol=1e-8)


# --- what is refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [-0.1, 1.0, math.nan, True, "0.5"])
def test_a_rate_that_is_none_is_refused(value: Any) -> None:
    space = space_of("nasbench201")
    with pytest.raises(UserError, match=r"skip_dropout is .*; it must be a number from 0 to less than"):
        supernet_of(space)(images(), mixture_of(space), skip_dropout=value)
    with pytest.raises(UserError, match=r"supernet\.skip_dropout is .*; it must be a number from 0"):
        SupernetOptions(skip_dropout=value)
