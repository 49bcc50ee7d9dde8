"""What a search will cost, from a few of its steps."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from experiments import experiment_of

import archgrad as ag
from archgrad.config import SearchConfig
from archgrad.config.resolve import resolve
from archgrad.loop import estimate as timing
from archgrad.loop.estimate import estimate, step_seconds
from archgrad.loop.stages import example_stages


def test_steps_are_those_of_the_schedule() -> None:
    space, data = ag.spaces.NASBench201(channels=2, cells_per_stage=1), ag.data.digits(limit=100)
    method, training = ag.recipes.idarts(), ag.WeightTraining(epochs=8, batch_size=10)
    config = SearchConfig(space=space, method=method, weights=training)
    found, setup = estimate(resolve(config), data), experiment_of(space, method, data, config)
    assert (found.weight_steps, found.arch_steps) == (8 * setup.steps, setup.arch_steps)
    assert found.weight_steps == 4 * found.arch_steps
    assert found.parameters == sum(weight.numel() for weight in setup.space.supernet(input_channels=1).parameters())
    assert found.seconds > found.weight_steps * found.step_seconds > 0


@pytest.mark.parametrize(
    ("at_most", "at_least", "inner_steps", "steps"),
    [(100.0, 0.0, 1, 7), (5.0, 0.0, 1, 5), (0.0, 0.0, 1, 3), (0.0, 0.0, 4, 5), (100.0, 20.0, 1, 20)],
)
def test_a_measurement_ends_when_its_time_is_over(
    at_most: float, at_least: float, inner_steps: int, steps: int, monkeypatch: pytest.MonkeyPatch
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
    parts = resolve(SearchConfig(space=space, method=method, weights=training))
    assert step_seconds(parts, data, at_most, at_least) == 1.0
    assert now[0] == 1 + steps  # the timer looks at the clock when it begins and after each step


def test_stages_are_measured_with_as_many_choices_as_they_will_have() -> None:
    stages = [stage.space for stage in example_stages(resolve(SearchConfig(space="darts", method="p-darts")))]
    assert [sum(block.cells for block in space.blocks) for space in stages] == [5, 11, 17]
    rows = [[row.choices for block in space.blocks for row in block.rows] for space in stages]
    assert [{len(choices) for choices in own} for own in rows] == [{8}, {5}, {3}]
    assert len({choice for choices in rows[-1] for choice in choices}) == 8  # convolutions too
