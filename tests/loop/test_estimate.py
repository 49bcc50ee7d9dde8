"""What a search will cost, from a few of its steps."""

from __future__ import annotations

import archgrad as ag
from archgrad.loop.estimate import estimate
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
