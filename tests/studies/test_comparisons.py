from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from scipy.stats import t, ttest_1samp

from archgrad.errors import UserError
from archgrad.studies.comparisons import decide, holm, paired_p_value, seeds_to_tell_apart, shown_seeds


def seeded(values: list[float]) -> dict[int, float | None]:
    return dict(enumerate(values))


def test_the_paired_test_counts_all_flips_of_signs() -> None:
    differences = np.array([0.3, -0.1, 0.5, 0.2, 0.4, -0.2, 0.6])
    flipped = [abs(np.mean(differences * signs)) for signs in product([-1, 1], repeat=7)]
    exact = np.mean(np.array(flipped) >= abs(differences.mean()) - 1e-12)
    assert paired_p_value(differences) == pytest.approx(exact)


def test_the_smallest_p_value_has_one_flip_on_either_side() -> None:
    assert paired_p_value([1.0, 2.0, 3.0, 4.0, 5.0]) == 2 / 2**5
    assert paired_p_value([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]) == 2 / 2**6
    assert paired_p_value([1.0]) == 1.0
    assert paired_p_value([0.0, 0.0, 0.0]) == 1.0


def test_many_seeds_flip_at_random_and_agree_with_the_t_test() -> None:
    differences = np.random.default_rng(0).normal(0.3, 1.0, 60)
    found = paired_p_value(differences)
    assert found == paired_p_value(differences)
    assert found == pytest.approx(ttest_1samp(differences, 0).pvalue, abs=0.02)


def test_holms_correction() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_only_seeds_that_both_have_are_paired() -> None:
    (pair,) = decide({"a": {0: 1.0, 1: 2.0, 2: None}, "b": {1: 1.5, 0: 0.0, 3: 9.0}}).pairs
    assert pair.seeds == (0, 1)
    assert pair.difference == pytest.approx(0.75)
    (apart,) = decide({"a": {0: 1.0}, "b": {1: 1.0}}).pairs
    assert (apart.p, apart.p_holm, apart.difference, apart.told_apart) == (None, None, None, False)


@pytest.mark.parametrize(("effect", "seeds"), [(0.5, 34), (0.8, 15), (1.0, 10), (0.2, 199)])
def test_seeds_for_80_percent_power_are_the_usual_ones(effect: float, seeds: int) -> None:
    """A medium, a large, a very large and a small effect by the paired t-test, two-sided at 5 %."""
    assert seeds_to_tell_apart(effect, 1.0) == seeds
    assert seeds_to_tell_apart(-3 * effect, 3.0) == seeds


def test_the_power_is_what_simulations_have() -> None:
    seeds = int(seeds_to_tell_apart(0.6, 1.0))
    studies = np.random.default_rng(0).normal(0.6, 1.0, (20_000, seeds))
    ratios = studies.mean(axis=1) / studies.std(axis=1, ddof=1) * math.sqrt(seeds)
    assert 0.79 < np.mean(np.abs(ratios) > t.ppf(0.975, seeds - 1)) < 0.83


def test_seeds_have_sensible_limits() -> None:
    assert seeds_to_tell_apart(0.0, 1.0) == math.inf
    assert seeds_to_tell_apart(0.0, 0.0) == math.inf
    assert seeds_to_tell_apart(0.01, 1.0) == math.inf
    assert seeds_to_tell_apart(1.0, 0.0) == seeds_to_tell_apart(1e6, 1.0) == 6  # five cannot reach p = 0.05
    assert shown_seeds(seeds_to_tell_apart(0.01, 1.0)) == "more than 1,000"


def test_a_clear_winner_is_named() -> None:
    seeds = range(8)
    results = {
        "darts": {seed: 88.0 + 0.1 * (seed % 3) for seed in seeds},
        "gaea": {seed: 94.0 + 0.1 * (seed % 2) for seed in seeds},
        "gdas": {seed: 93.0 + 0.1 * (seed % 4) for seed in seeds},
    }
    verdict = decide(results)
    assert verdict.winner == verdict.best == "gaea"
    assert [(pair.first, pair.second) for pair in verdict.pairs] == [
        ("darts", "gaea"), ("darts", "gdas"), ("gaea", "gdas"),
    ]  # fmt: skip
    assert [pair.p_holm for pair in verdict.pairs] == pytest.approx([3 * 2 / 2**8] * 3)
    assert str(verdict).startswith("gaea wins: it differs from every other variant by 0.9 or more (p ≤ 0.023")
    assert decide(results, higher_is_better=False).winner == "darts"


def test_no_winner_where_the_runs_do_not_say_so() -> None:
    near = decide(
        {"a": seeded([93.0, 94, 92, 95, 93, 94, 92, 93]), "b": seeded([92.9, 94.2, 92, 94.8, 93, 94, 92, 93])}
    )
    assert near.winner is None
    assert near.not_told_apart == ("b",)
    assert str(near) == "No winner: a has the best mean, but these runs do not tell it apart from b."


def test_five_seeds_cannot_tell_even_a_clear_difference() -> None:
    verdict = decide({"a": seeded([94.0, 94.1, 94.2, 94.0, 94.1]), "b": seeded([80.0, 81, 82, 80, 81])})
    assert verdict.winner is None
    assert verdict.least_p == 2 / 2**5
    assert "So few seeds cannot: the smallest p-value they can reach is 0.062. It takes at least 6 seeds." in str(
        verdict
    )


def test_a_rival_that_wins_on_the_common_seeds_is_not_beaten() -> None:
    seeds = range(8)
    first: dict[int, float | None] = {**dict.fromkeys(seeds, 90.0), 8: 200.0}
    second: dict[int, float | None] = {seed: 91.0 + 0.01 * seed for seed in seeds}
    verdict = decide({"a": first, "b": second})
    assert verdict.best == "a"
    assert verdict.not_told_apart == ("b",)


def test_missing_runs_are_counted_and_named() -> None:
    verdict = decide({"a": {0: 1.0, 1: 2.0, 2: 3.0}, "b": {0: 1.0, 1: None, 2: None}, "c": {0: None}})
    assert verdict.missing == {"b": (1, 2), "c": (0, 1, 2)}
    assert "b lacks 2 runs (seed 1, 2). c lacks 3 runs (seed 0, 1, 2)." in str(verdict)
    assert verdict.not_told_apart == ("b", "c")


def test_one_variant_is_no_comparison() -> None:
    verdict = decide({"a": {0: 1.0}})
    assert (verdict.winner, verdict.least_p) == (None, None)
    assert str(verdict) == "a is the only variant with results: there is nothing to compare."
    with pytest.raises(UserError, match="no finished run"):
        decide({"a": {0: None}})


def test_equal_variants_are_not_told_apart() -> None:
    verdict = decide({"a": seeded([54.3] * 8), "b": seeded([54.3] * 8)})
    assert verdict.not_told_apart == ("b",)
    assert verdict.pairs[0].seeds_needed == math.inf
