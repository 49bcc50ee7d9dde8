"""What a search will cost, from a few of its steps."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import archgrad as ag
from archgrad.loop import estimate as timing
from archgrad.loop.estimate import estimate, step_seconds
from archgrad.loop.setup import Setup


def test_steps_are_those_of_the_schedule() -> None:
    space, data = ag.spaces.NASBench201(channels=2, cells_per_stage=1), ag.data.digits(limit=100)
    method, training = ag.recipes.idarts(), ag.WeightTraining(epochs=8, batch_size=10)
    found = estimate(space, method, data, training=training)
    setup = Setup.of(space, method, data, training=training)
    assert (found.weight_steps, found.arch_steps) == (8 * setup.steps, setup.arch_steps)
    assert found.weight_steps == 4 * found.arch_steps
    assert found.parameters == sum(weight.numel() for weight in setup.space.supernet().parameters())
    assert found.seconds > found.weight_steps * found.step_seconds > 0


@pytest.mark.parametrize(("at_most", "inner_steps", "steps"), [(100.0, 1, 7), (5.0, 1, 5), (0.0, 1, 3), (0.0, 4, 5)])
def test_a_measurement_ends_when_its_time_is_over(
    at_most: float, inner_steps: int, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]

    def tick() -> float:
        now[0] += 1.0
        return now[0] - 1.0

    monkeypatch.setattr(timing, "time", SimpleNamespace(perf_counter=tick))
    space, data = ag.spaces.NASBench201(channels=2, cells_per_stage=1), ag.data.digits(limit=100)
    method = ag.recipes.darts() if inner_steps == 1 else ag.recipes.idarts()
    assert method.schedule.inner_steps == inner_steps
    training = ag.WeightTraining(batch_size=10)
    assert step_seconds(space, method, data, training=training, at_most=at_most) == 1.0
    assert now[0] == 1 + steps  # the timer looks at the clock when it begins and after each step
