from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from scipy.stats import bootstrap, kendalltau

from archgrad.errors import UserError
from archgrad.studies.statistics import (
    mean_interval,
    mean_intervals,
    seed_agreement,
    share_of_runs,
    split_missing,
    summarize,
)
from tests.studies.coverage import KINDS, covered, simulated


def test_a_summary_has_the_usual_numbers() -> None:
    found = summarize([93.0, 90.0, 94.0, 95.0])
    assert (found.runs, found.mean, found.median, found.best, found.worst) == (4, 93.0, 93.5, 95.0, 90.0)
    assert found.std == pytest.approx(math.sqrt(14 / 3))
    assert summarize([3.0, 2.5], higher_is_better=False)[4:6] == (2.5, 3.0)


def test_equal_runs_do_not_deviate_and_one_run_has_no_deviation() -> None:
    assert summarize([93.0])[2::4] == (None, None)
    found = summarize([0.1] * 3)
    assert (found.mean, found.std, found.interval) == (0.1, 0.0, (0.1, 0.1))


def test_no_run_is_refused() -> None:
    with pytest.raises(UserError, match="no finished run"):
        summarize([])


def test_missing_runs_are_named() -> None:
    finished, missing = split_missing({"a": {0: 1.0, 1: None, 2: 3.0}, "b": {0: 2.0, 1: 1.0}})
    assert finished == {"a": {0: 1.0, 2: 3.0}, "b": {0: 2.0, 1: 1.0}}
    assert missing == {"a": (1,), "b": (2,)}


def test_a_result_that_is_not_finite_names_its_variant() -> None:
    with pytest.raises(UserError, match="a result of gaea is nan"):
        split_missing({"gaea": {0: math.nan}})


def test_agreement_is_the_mean_of_kendalls_tau_over_pairs_of_seeds() -> None:
    vectors = {0: [0.1, 0.2, 0.3, 0.4], 1: [0.1, 0.2, 0.4, 0.3], 2: [0.4, 0.3, 0.2, 0.1]}
    pairs = [(0, 1), (0, 2), (1, 2)]
    mean = sum(kendalltau(vectors[first], vectors[second]).statistic for first, second in pairs) / 3
    assert seed_agreement(vectors.values()) == pytest.approx(mean)
    assert seed_agreement([[0.1, 0.2, 0.3, 0.4], [0.1, 0.2, 0.4, 0.3]]) == pytest.approx(4 / 6)


def test_even_probabilities_have_no_rank() -> None:
    assert seed_agreement([[0.5, 0.5], [0.4, 0.6]]) is None


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
    flags = [True] * count + [False] * (total - count)
    found = share_of_runs(flags)
    assert (found.having, found.runs) == (count, total)
    assert found.interval == pytest.approx((center - half, center + half), abs=1e-12)
