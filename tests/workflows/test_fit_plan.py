"""The sizes and times of a fit, on a machine without noise."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from archgrad.config import SearchConfig
from archgrad.config.resolve import space_of
from archgrad.data import Data, ImageData
from archgrad.errors import UserError
from archgrad.loop import sizes
from archgrad.loop.estimate import OVERHEAD
from archgrad.spaces import Cost, Genotype, NASBench201
from archgrad.workflows import fit_plan
from archgrad.workflows.fit_plan import (
    HEAVIEST,
    FitPlan,
    network_space,
    plan_fit,
    shape_of,
    sized_space,
    training_epochs,
    trainings,
)
from archgrad.workflows.limits import Limits, cost_of

LIGHT = Genotype.parse(
    "|skip_connect~0|+|nor_conv_1x1~0|skip_connect~1|+|skip_connect~0|avg_pool_3x3~1|nor_conv_1x1~2|"
)
MIDDLE = Genotype.parse(
    "|nor_conv_3x3~0|+|nor_conv_1x1~0|skip_connect~1|+|skip_connect~0|nor_conv_3x3~1|nor_conv_1x1~2|"
)
BATCH = 64


class Machine:
    """A machine whose steps take the time of their multiply-adds and a little more, and so does measuring them."""

    speed = 2e10

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def search_step(self, config: SearchConfig, data: Data, at_most: float) -> float:
        space = NASBench201(channels=config.channels or 16, cells_per_stage=config.cells or 5)
        step = 0.02 + 1.5 * self.image_seconds(space, HEAVIEST, data) * (config.batch_size or BATCH)
        self.now += min(max(3 * step, at_most), 8 * step)
        return step

    def epoch(self, config: SearchConfig, data: Data, at_most: float) -> float:
        space: Any = space_of(config)
        epoch = (0.005 * len(data) / BATCH + self.image_seconds(space.base, space.fixed, data) * len(data)) * 1.1
        self.now += min(max(3 * epoch * BATCH / len(data), at_most), 8 * epoch * BATCH / len(data))
        return epoch

    def image_seconds(self, space: Any, genotype: Genotype, data: Data) -> float:
        return 3 * madds_of(space, genotype, data.image_size) / self.speed


def madds_of(space: Any, genotype: Genotype, size: int) -> int:
    """Count roughly, which is quick: three stages of cells with half the pixels and twice the channels each."""
    weight = 9 * str(genotype).count("conv_3x3") + str(genotype).count("conv_1x1")
    return int((3 * weight * space.cells_per_stage + 27) * space.channels**2 * size**2)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine()
    monkeypatch.setattr(sizes, "_step_seconds", lambda parts, *more: made.search_step(parts.config, *more))
    monkeypatch.setattr(sizes, "time", made)
    monkeypatch.setattr(fit_plan, "epoch_seconds", made.epoch)
    monkeypatch.setattr(
        fit_plan, "cost_of", lambda space, one, shape: Cost(0, madds_of(space, one, shape["image_size"]))
    )
    return made


def images(count: int, size: int = 16) -> Data:
    labels = torch.arange(count) % 10
    pixels = torch.zeros(1, 1, 1, 1, dtype=torch.uint8).expand(count, 1, size, size)
    return ImageData("fake", pixels, labels, tuple("abcdefghij"))


def planned(machine: Machine, data: Data, seconds: float, genotypes: list[Genotype]) -> tuple[float, Any]:
    """Return the time that a fit takes by its plan, and the network."""
    start = machine.now
    plan = plan_fit(data, seconds, {})
    search = plan.search_config(0, {"data": data})
    count = min(plan.search_limit or len(data), len(data))
    steps = plan.search_epochs * max(int(0.9 * count) // plan.search_batch_size, 1)
    machine.now += plan.searches * steps * machine.search_step(search, data, 0.0) * OVERHEAD
    found = genotypes[: plan.searches]
    left = fit_plan.REST * seconds - (machine.now - start)
    space = network_space(plan, found, data, left, Limits(), {})
    config = fit_plan.network_training(space, found[0], data, epochs=1).config
    epochs = training_epochs(config, data, len(found), left)
    machine.now += trainings(len(found)) * epochs * machine.epoch(config, data, 0.0)
    return machine.now - start, space


@pytest.mark.parametrize("genotypes", [[HEAVIEST, MIDDLE], [LIGHT, LIGHT], [MIDDLE]], ids=["heavy", "light", "one"])
@pytest.mark.parametrize(("count", "size"), [(150, 8), (1500, 8), (5000, 16), (40_000, 32)])
def test_the_time_is_kept(machine: Machine, count: int, size: int, genotypes: list[Genotype]) -> None:
    data, before = images(count, size), 0
    for seconds in (60, 300, 1800, 7200):
        if (len(genotypes) == 1) != (seconds < 120) or (count == 40_000 and seconds < 1800):
            continue
        taken, space = planned(machine, data, seconds, genotypes)
        madds = madds_of(space, genotypes[0], size)
        largest = (space.channels, space.cells_per_stage) == fit_plan._SIZES[-1]
        assert taken <= 1.2 * seconds
        assert taken >= 0.8 * seconds or largest  # more time than the largest network can use is not used up
        assert madds >= before
        before = madds


def test_a_budget_that_is_too_short(machine: Machine) -> None:
    with pytest.raises(UserError, match="the budget of 1 seconds is too short for a search"):
        plan_fit(images(5000, 32), 1.0, {})
    with pytest.raises(
        UserError, match=r"but one epoch of the smallest network takes .* give at least --budget"
    ) as raised:
        plan_fit(images(200_000, 8), 60.0, {})
    enough = int(str(raised.value).partition("--budget ")[2].partition("s,")[0])
    plan_fit(images(200_000, 8), enough, {})


def test_limits_are_kept_by_all_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit_plan, "_timed_size", lambda *args: (16, 2))
    data, limits = images(100, 8), Limits(params=20_000)
    space = network_space(FitPlan(8), [LIGHT, HEAVIEST], data, 60.0, limits, {})
    wider = sized_space(space.channels + 1, 2)
    assert 1 < space.channels < 16
    assert limits.exceeded(space, HEAVIEST, shape_of(data)) is None
    assert limits.exceeded(wider, HEAVIEST, shape_of(data)) is not None
    assert limits.exceeded(wider, LIGHT, shape_of(data)) is None
    least = cost_of(sized_space(1, 1), HEAVIEST, shape_of(data)).parameters
    small = network_space(FitPlan(8), [HEAVIEST], data, 60.0, Limits(params=least), {})
    assert small == sized_space(1, 1)  # two cells are too many even with one channel
