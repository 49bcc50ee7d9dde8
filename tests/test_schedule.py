from __future__ import annotations

import pytest

from archgrad.errors import UserError
from archgrad.schedule import Schedule


def test_the_architecture_moves_before_every_weight_step_by_default() -> None:
    assert all(Schedule().moves_architecture(index) for index in range(5))


@pytest.mark.parametrize("steps", [2, 3, 4, 7])
def test_the_architecture_moves_once_after_every_so_many_weight_steps(steps: int) -> None:
    moves = [index for index in range(10 * steps) if Schedule(steps).moves_architecture(index)]
    assert moves == [steps * number for number in range(1, 10)]


@pytest.mark.parametrize("steps", [0, -1, 1.5, True, "4", None])
def test_anything_but_a_positive_whole_number_is_refused(steps: object) -> None:
    with pytest.raises(UserError, match=r"schedule.inner_steps is .*; it must be at least 1 and a whole number\."):
        Schedule(steps)  # type: ignore[arg-type]


def test_schedules_are_values() -> None:
    assert Schedule(4) == Schedule(inner_steps=4) != Schedule()
    assert repr(Schedule(4)) == "Schedule(inner_steps=4)"
