from __future__ import annotations

import math

import pytest

from archgrad.errors import UserError
from archgrad.studies.curves import anytime_curve
from archgrad.studies.statistics import mean_interval


def test_runs_hold_their_last_value_and_begin_with_their_first() -> None:
    runs = {0: [(1.0, 10.0), (3.0, 30.0)], 1: [(2.0, 20.0), (5.0, 50.0)]}
    found = anytime_curve(runs)
    assert [(point.x, point.runs, point.mean) for point in found] == [
        (1.0, 1, 10.0), (2.0, 2, 15.0), (3.0, 2, 25.0), (5.0, 2, 40.0),
    ]  # fmt: skip


def test_the_band_is_the_interval_of_the_runs_that_have_begun() -> None:
    runs = {seed: [(0.0, float(seed)), (1.0, float(seed**2))] for seed in range(5)}
    first, last = anytime_curve({**runs, 9: [(1.0, 7.0)]})
    assert first.runs == 5
    assert first.band == pytest.approx(mean_interval([0, 1, 2, 3, 4]), abs=0.4)  # fewer resamples
    assert last.runs == 6
    assert last.band is not None
    assert last.band.low < last.mean < last.band.high


def test_runs_without_points_make_no_curve() -> None:
    assert anytime_curve({}) == anytime_curve({0: []}) == []


@pytest.mark.parametrize("points", [[(0.0, math.nan)], [(math.inf, 1.0)]])
def test_points_are_finite(points: list[tuple[float, float]]) -> None:
    with pytest.raises(UserError, match=r"of seed 3 is (nan|inf)"):
        anytime_curve({3: points})
