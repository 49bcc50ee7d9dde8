"""Skip dropout (P-DARTS): only on skip connections, right in frequency and scale, and a function of the seed alone."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from varied_spaces import VARIED_SPACES

from archgrad.errors import UserError
from archgrad.operations import FactorizedReduce, Identity, Operation, Site
from archgrad.spaces import SPACES, Chain
from archgrad.supernet import CellMixture, Edge, MixedCell, SupernetOptions
from archgrad.supernet.modifiers.skip_dropout import kept_elements
from tests.supernet.supernets import images, mixture_of, space_of, supernet_of

every_space = pytest.mark.parametrize("name", VARIED_SPACES)


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
    space = space_of(name, cells=8 if isinstance(SPACES.create(name), Chain) else 3)  # mobile skips within stages only
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


def test_partial_channels_that_go_past_are_spared() -> None:
    """All weight on skips: what goes past them is as without, and some of what they carry is gone."""
    cell = MixedCell([Edge(0, 1, (Identity(),), 1, 2)], inputs=1, nodes=2)
    x = 1 + torch.rand(6, 4, 3, 3, generator=torch.Generator().manual_seed(0))
    node = cell([x], CellMixture([[torch.tensor(1.0)]], (0, "cell", 0), skip_dropout=0.5))[1]
    torch.testing.assert_close(node[:, 1::2], x[:, 2:])  # shuffled: every second channel
    factors = node[:, ::2] / x[:, :2]
    torch.testing.assert_close(factors.unique(), torch.tensor([0.0, 2.0]))


# --- what is refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [-0.1, 1.0, math.nan, True, "0.5"])
def test_a_rate_that_is_none_is_refused(value: Any) -> None:
    space = space_of("nasbench201")
    with pytest.raises(UserError, match=r"skip_dropout is .*; it must be a number from 0 to less than"):
        supernet_of(space)(images(), mixture_of(space), skip_dropout=value)
    with pytest.raises(UserError, match=r"supernet\.skip_dropout is .*; it must be a number from 0"):
        SupernetOptions(skip_dropout=value)
