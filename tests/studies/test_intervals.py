from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from scipy.stats import bootstrap

from archgrad.errors import UserError
from archgrad.studies.intervals import mean_interval, mean_intervals, share_interval
from tests.studies.coverage import KINDS, covered, simulated


@pytest.mark.parametrize("runs", [5, 10])
@pytest.mark.parametrize("kind", KINDS)
def test_intervals_cover_the_mean_in_95_percent_of_studies(kind: str, runs: int) -> None:
    studies, mean = simulated(kind, runs)
    assert abs(covered(mean_intervals(studies, resamples=999), mean) - 0.95) <= 0.02


def test_bca_does_not() -> None:
    studies, mean = simulated("normal", 5)
    found = bootstrap((studies[:500],), np.mean, axis=1, n_resamples=499, method="BCa", random_state=0)
    assert covered(found.confidence_interval, mean) < 0.9


def test_runs_that_found_the_same_cell_do_not_blow_the_interval_up() -> None:
    interval = mean_interval([94.36, 94.36, 94.36, 94.37, 92.0])
    assert interval is not None
    assert 91 < interval.low < 94.09 < interval.high < 96


def test_equal_runs_have_an_interval_of_width_zero_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert mean_interval([0.1, 0.1, 0.1]) == (0.1, 0.1)


def test_one_run_has_no_interval() -> None:
    assert mean_interval([93.0]) is None
    assert mean_interval([]) is None


def test_the_interval_moves_and_grows_with_the_values_and_is_the_same_every_time() -> None:
    values = np.array([1.0, 2.0, 4.0, 8.0])
    interval = mean_interval(values)
    assert interval is not None
    assert mean_interval(values) == interval
    assert mean_interval(10 + 3 * values) == pytest.approx([10 + 3 * end for end in interval])
    wide = mean_interval(values, confidence=0.99)
    assert wide is not None
    assert wide.low < interval.low < interval.high < wide.high


@pytest.mark.parametrize("bad", [math.nan, math.inf, "93", None, True])
def test_what_is_no_finite_number_is_refused(bad: object) -> None:
    with pytest.raises(UserError, match="must be a finite number"):
        mean_interval([93.0, bad])  # type: ignore[list-item]


@pytest.mark.parametrize(("count", "total"), [(0, 5), (1, 4), (3, 3), (7, 20)])
def test_the_interval_of_a_share_is_wilsons(count: int, total: int) -> None:
    z, p = 1.959963984540054, count / total
    center = (p + z**2 / (2 * total)) / (1 + z**2 / total)
    half = z * math.sqrt(p * (1 - p) / total + z**2 / (4 * total**2)) / (1 + z**2 / total)
    assert share_interval(count, total) == pytest.approx((center - half, center + half), abs=1e-12)


@pytest.mark.parametrize(("count", "total"), [(0, 0), (3, 2), (-1, 2)])
def test_no_share_has_no_interval(count: int, total: int) -> None:
    with pytest.raises(UserError, match="is no share"):
        share_interval(count, total)
