"""Fronts and hypervolumes against plain enumerations."""

from __future__ import annotations

import numpy as np
import pytest

from archgrad.studies.pareto import Point, hypervolume, pareto_front


def drawn(seed: int, count: int) -> list[Point]:
    """Draw points with whole coordinates, so that there are ties."""
    stream = np.random.default_rng(seed)
    return [(float(cost), float(accuracy)) for cost, accuracy in stream.integers(0, 12, (count, 2))]


def counted(points: list[Point], reference: Point) -> float:
    """Count the unit squares between the reference and the points."""
    return float(
        sum(
            any(cost <= x and y + 1 <= accuracy for cost, accuracy in points)
            for x in range(int(reference[0]))
            for y in range(int(reference[1]), 12)
        )
    )


def beats(one: Point, other: Point) -> bool:
    return one != other and one[0] <= other[0] and one[1] >= other[1]


@pytest.mark.parametrize("count", [0, 1, 2, 5, 20])
@pytest.mark.parametrize("seed", range(4))
def test_they_are_those_of_an_enumeration(seed: int, count: int) -> None:
    points = drawn(seed, count)
    assert pareto_front(points) == sorted({one for one in points if not any(beats(other, one) for other in points)})
    for reference in ((12.0, 0.0), (7.0, 3.0), (2.0, 10.0)):
        assert hypervolume(points, reference) == counted(points, reference)


def test_a_beaten_point_changes_nothing_and_a_better_one_adds() -> None:
    front, reference = [(1.0, 5.0), (2.0, 7.0)], (4.0, 0.0)
    assert hypervolume([*front, (3.0, 6.0)], reference) == hypervolume(front, reference) == 19.0
    assert hypervolume([*front, (1.0, 6.0)], reference) == 20.0
