from __future__ import annotations

import math

import pytest
from scipy.stats import kendalltau

from archgrad.errors import UserError
from archgrad.studies.statistics import (
    average_ranks,
    regret,
    seed_agreement,
    share_of_runs,
    split_missing,
    standing,
    summarize,
)


def test_a_summary_has_the_usual_numbers() -> None:
    found = summarize([93.0, 90.0, 94.0, 95.0])
    assert (found.runs, found.mean, found.median, found.best, found.worst) == (4, 93.0, 93.5, 95.0, 90.0)
    assert found.std == pytest.approx(math.sqrt(14 / 3))
    assert summarize([3.0, 2.5], higher_is_better=False)[4:6] == (2.5, 3.0)


def test_one_run_has_neither_deviation_nor_interval() -> None:
    assert summarize([93.0])[2::4] == (None, None)


def test_equal_runs_do_not_deviate() -> None:
    found = summarize([0.1] * 3)
    assert (found.mean, found.std, found.interval) == (0.1, 0.0, (0.1, 0.1))


def test_no_run_is_refused() -> None:
    with pytest.raises(UserError, match="no finished run"):
        summarize([])


def test_the_share_of_collapsed_runs_has_its_interval() -> None:
    found = share_of_runs([True, False, True, False])
    assert (found.count, found.total, found.share) == (2, 4, 0.5)
    assert found.interval.low < 0.5 < found.interval.high


def test_missing_runs_are_named() -> None:
    finished, missing = split_missing({"a": {0: 1.0, 1: None, 2: 3.0}, "b": {0: 2.0, 1: 1.0}})
    assert finished == {"a": {0: 1.0, 2: 3.0}, "b": {0: 2.0, 1: 1.0}}
    assert missing == {"a": (1,), "b": (2,)}


def test_a_result_that_is_not_finite_names_its_variant() -> None:
    with pytest.raises(UserError, match="a result of gaea is nan"):
        split_missing({"gaea": {0: math.nan}})


def test_ranks_are_averaged_with_ties() -> None:
    results = {"c10": {"a": 94.0, "b": 93.0, "c": 93.0}, "c100": {"a": 70.0, "b": 71.0, "c": 69.0}}
    assert average_ranks(results).ranks == {"a": 1.5, "b": 1.75, "c": 2.75}
    assert average_ranks(results, higher_is_better=False).ranks == {"a": 2.5, "b": 2.25, "c": 1.25}


def test_data_that_lack_a_variant_are_left_out_and_named() -> None:
    found = average_ranks({"c10": {"a": 1.0, "b": 2.0}, "svhn": {"a": 1.0}, "c100": {"a": 2.0, "b": None}})
    assert found == ({"a": 2.0, "b": 1.0}, ("c10",), {"svhn": ("b",), "c100": ("b",)})
    assert average_ranks({"svhn": {"a": 1.0}, "c10": {"b": 2.0}}).ranks == {}


def test_regret_is_how_much_worse_the_found_value_is() -> None:
    assert regret(93.37, 94.37) == pytest.approx(1.0)
    assert regret(6.5, 5.5, higher_is_better=False) == pytest.approx(1.0)


def test_equal_architectures_are_not_worse() -> None:
    assert standing(93.0, [90.0, 93.0, 93.0, 94.0]) == (1, 2, 4)
    assert standing(93.0, [90.0, 93.0, 93.0, 94.0]).share_worse == 0.25
    assert standing(6.0, [5.0, 6.0, 7.0, 8.0], higher_is_better=False).share_worse == 0.5
    with pytest.raises(UserError, match="no values"):
        standing(93.0, [])


def test_agreement_is_the_mean_of_kendalls_tau_over_pairs_of_seeds() -> None:
    vectors = {0: [0.1, 0.2, 0.3, 0.4], 1: [0.1, 0.2, 0.4, 0.3], 2: [0.4, 0.3, 0.2, 0.1]}
    pairs = [(0, 1), (0, 2), (1, 2)]
    mean = sum(kendalltau(vectors[first], vectors[second]).statistic for first, second in pairs) / 3
    assert seed_agreement(vectors) == (pytest.approx(mean), 3, 0)
    assert seed_agreement({0: [0.1, 0.2, 0.3, 0.4], 1: [0.1, 0.2, 0.4, 0.3]}).tau == pytest.approx(4 / 6)


def test_even_probabilities_have_no_rank() -> None:
    assert seed_agreement({0: [0.5, 0.5], 1: [0.4, 0.6]}) == (None, 0, 1)
    with pytest.raises(UserError, match="the same decisions"):
        seed_agreement({0: [0.5, 0.5], 1: [0.4, 0.3, 0.3]})
