"""Limits on a network, and the widest network that keeps them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from torch import nn

from archgrad.errors import UserError
from archgrad.spaces import Genotype, NASBench201
from archgrad.workflows import limits as limits_module
from archgrad.workflows.limits import WIDEST, Limits, cost_of, widest_within

_CONV = "nor_conv_3x3"
HEAVIEST = Genotype.parse(f"|{_CONV}~0|+|{_CONV}~0|{_CONV}~1|+|{_CONV}~0|{_CONV}~1|{_CONV}~2|")
SPACE = NASBench201(channels=8, cells_per_stage=1)
SHAPE = {"num_classes": 5, "input_channels": 1, "image_size": 8}
LIGHT = Genotype.parse("|skip_connect~0|+|nor_conv_1x1~0|none~1|+|none~0|none~1|avg_pool_3x3~2|")


@pytest.mark.parametrize(("kind", "width"), [("params", 1), ("params", 7), ("params", 8), ("madds", 2), ("madds", 5)])
def test_the_widest_network_to_the_digit(kind: str, width: int) -> None:
    genotype = HEAVIEST if kind == "params" else LIGHT
    costs = [cost_of(replace(SPACE, channels=one), genotype, SHAPE) for one in (width, width + 1)]
    exact, more = (one.parameters if kind == "params" else one.multiply_adds for one in costs)
    assert widest_within(Limits(**{kind: exact}), SPACE, genotype, SHAPE).channels == width
    assert widest_within(Limits(**{kind: more - 1}), SPACE, genotype, SHAPE).channels == width
    if width > 1:
        assert widest_within(Limits(**{kind: exact - 1}), SPACE, genotype, SHAPE).channels == width - 1


@pytest.mark.parametrize(("start", "limit"), [(1, 100_000), (16, 1_000_000), (100, 3_333_333)])
def test_the_width_may_grow_beyond_that_of_the_space(start: int, limit: int) -> None:
    space = replace(SPACE, channels=start)
    found = widest_within(Limits(madds=limit), space, HEAVIEST, SHAPE, WIDEST)
    own, wider = (cost_of(replace(found, channels=found.channels + more), HEAVIEST, SHAPE) for more in (0, 1))
    assert own.multiply_adds <= limit < wider.multiply_adds


def test_the_cost_is_that_of_the_real_network() -> None:
    assert cost_of(SPACE, HEAVIEST, SHAPE) == SPACE.cost(HEAVIEST, **SHAPE)


def test_latency_is_measured_at_the_size_of_the_images(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = []

    def latency(network: nn.Module, channels: int, size: int) -> float:
        measured.append((channels, size))
        return 1e-3 * next(network.parameters()).shape[0]  # a millisecond for each channel of the stem

    monkeypatch.setattr(limits_module, "measure_latency", latency)
    assert widest_within(Limits(latency=0.0055), SPACE, HEAVIEST, SHAPE).channels == 5
    assert set(measured) == {(1, 8)}
    with pytest.raises(
        UserError, match=r"no width keeps the limits: with 1 channel .* 1 ms for one image, more than 0.5"
    ):
        widest_within(Limits(latency=0.0005), SPACE, HEAVIEST, SHAPE)


def test_all_limits_hold_at_once() -> None:
    costs = {width: cost_of(replace(SPACE, channels=width), HEAVIEST, SHAPE) for width in (2, 4)}
    both = Limits(params=costs[4].parameters, madds=costs[2].multiply_adds)
    assert widest_within(both, SPACE, HEAVIEST, SHAPE).channels == 2
    assert widest_within(replace(both, madds=None), SPACE, HEAVIEST, SHAPE).channels == 4
    assert widest_within(Limits(), SPACE, HEAVIEST, SHAPE) is SPACE
    assert not Limits()
    assert Limits(madds=1)


def test_limits_are_texts_or_numbers() -> None:
    assert Limits.of("1M", 2e6, 5e-5) == Limits(1_000_000, 2_000_000, 5e-5)
    assert Limits.of(1_000_000, None, "5ms") == Limits(1_000_000, None, 0.005)
