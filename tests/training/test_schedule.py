from __future__ import annotations

from typing import Any

import pytest

from archgrad.errors import UserError
from archgrad.training.schedule import Moves, Schedule


def moving(schedule: Schedule, count: int, steps: int = 1) -> list[int]:
    return [index for index in range(count) if schedule.moves(index, steps).architecture]


def test_both_move_at_every_step_by_default() -> None:
    assert all(Schedule().moves(index) == Moves(weights=True, architecture=True) for index in range(5))


@pytest.mark.parametrize("steps", [2, 3, 4, 7])
def test_the_architecture_moves_once_after_every_so_many_weight_steps(steps: int) -> None:
    assert moving(Schedule(steps), 10 * steps) == [steps * number - 1 for number in range(1, 11)]
    assert all(Schedule(steps).moves(index).weights for index in range(10 * steps))


@pytest.mark.parametrize("steps", [1, 5])
def test_the_architecture_rests_while_the_weights_warm_up(steps: int) -> None:
    assert moving(Schedule(warmup_epochs=3), 6 * steps, steps) == list(range(3 * steps, 6 * steps))
    assert Schedule(warmup_epochs=3).moves(0, steps) == Moves(weights=True, architecture=False)


def test_inner_steps_are_counted_from_the_end_of_the_warm_up() -> None:
    assert moving(Schedule(inner_steps=4, warmup_epochs=2), 20, steps=5) == [13, 17]


@pytest.mark.parametrize("seed", range(4))
def test_random_updates_move_one_of_the_two_with_equal_chances(seed: int) -> None:
    schedule, count = Schedule(level="single", updates="random"), 4000
    moves = [schedule.moves(index, 10, seed) for index in range(count)]
    assert all(move.weights != move.architecture for move in moves)
    assert abs(sum(move.weights for move in moves) - count / 2) < 4 * (count / 4) ** 0.5
    assert moves == [schedule.moves(index, 10, seed) for index in range(count)]
    assert moves != [schedule.moves(index, 10, seed + 1) for index in range(count)]


def test_simultaneous_updates_move_both() -> None:
    schedule = Schedule(level="single", updates="simultaneous", warmup_epochs=1)
    assert not schedule.moves(1, 2).together
    assert all(schedule.moves(index, 2).together for index in range(2, 6))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"warmup_epochs": -1}, "schedule.warmup_epochs is -1; it must be at least 0"),
        ({"level": "double"}, "unknown value of schedule.level: 'double'.* Choose from: bilevel, single"),
        ({"updates": "never", "level": "single"}, "Choose from: alternate, simultaneous, random"),
        ({"updates": "random"}, "follow different losses at level 'bilevel'; set schedule.level=single"),
        ({"updates": "simultaneous"}, "set schedule.level=single, or schedule.updates=alternate"),
        ({"updates": "random", "level": "single", "inner_steps": 2}, "2, but schedule.updates is 'random'"),
    ],
)
def test_what_does_not_fit_together_is_refused(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        Schedule(**settings)
