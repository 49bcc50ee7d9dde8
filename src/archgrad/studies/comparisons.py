"""Which variants a study tells apart: paired tests over seeds, Holm's correction, power, and the verdict."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from archgrad.errors import UserError
from archgrad.studies.statistics import Interval, Numbers, Seed, finite_numbers, split_missing, summarize

__all__ = ["PairedDifference", "Verdict", "decide", "holm", "paired_p_value", "seeds_to_tell_apart", "shown_seeds"]

ALPHA = 0.05
MOST_SEEDS = 1_000
_FLIPS = 1 << 13
"""All sign flips of up to 13 seeds; as many random ones for more seeds."""


@dataclass(frozen=True)
class PairedDifference:
    """Two variants over the ``seeds`` that both have.

    ``difference`` is the mean of first − second, with the standard deviation and interval of the paired differences.
    ``p`` is from the sign-flip test, ``p_holm`` after Holm's correction over all pairs. ``seeds_needed`` would tell
    the two apart with 80 % power, if these were the true difference and deviation. Without enough seeds these are None.
    """

    first: str
    second: str
    seeds: tuple[int | str, ...] = ()
    difference: float | None = None
    std: float | None = None
    interval: Interval | None = None
    p: float | None = None
    p_holm: float | None = None
    seeds_needed: float | None = None

    @property
    def told_apart(self) -> bool:
        """Both the corrected p-value and the interval of the difference exclude zero."""
        if self.p_holm is None or self.interval is None:
            return False
        return self.p_holm <= ALPHA and not self.interval.low <= 0 <= self.interval.high


@dataclass(frozen=True)
class Verdict:
    """What a study says of its variants.

    ``best`` has the best mean; it is the winner only if ``not_told_apart`` is empty. ``pairs`` are all pairs of
    variants. ``least_p`` is the smallest corrected p-value that so few seeds can reach, and ``least_seeds`` the fewest
    that can reach 0.05. ``missing`` names the seeds of runs that failed or were not made.
    """

    best: str
    not_told_apart: tuple[str, ...]
    pairs: tuple[PairedDifference, ...]
    least_p: float | None
    least_seeds: int
    missing: Mapping[str, tuple[int | str, ...]]

    @property
    def winner(self) -> str | None:
        """The best variant, if it is told apart from all others."""
        return None if self.not_told_apart or not self.pairs else self.best

    def __str__(self) -> str:
        lacking = [
            f"{variant} lacks {len(seeds)} run{'s' if len(seeds) > 1 else ''} (seed {', '.join(map(str, seeds))})."
            for variant, seeds in self.missing.items()
        ]
        return " ".join([self._result(), *lacking])

    def _result(self) -> str:
        if not self.pairs:
            return f"{self.best} is the only variant with results: there is nothing to compare."
        if self.winner:
            own = [pair for pair in self.pairs if self.best in (pair.first, pair.second)]
            smallest, worst_p = (
                min(abs(pair.difference or 0.0) for pair in own),
                max(pair.p_holm or 0.0 for pair in own),
            )
            return (
                f"{self.best} wins: it differs from every other variant by {smallest:.3g} or more "
                f"(p ≤ {worst_p:.2g} after Holm's correction)."
            )
        rivals = ", ".join(self.not_told_apart)
        text = f"No winner: {self.best} has the best mean, but these runs do not tell it apart from {rivals}."
        if self.least_p is not None and self.least_p > ALPHA:
            text += (
                f" So few seeds cannot: the smallest p-value they can reach is {self.least_p:.2g}. It takes at least "
                f"{self.least_seeds} seeds."
            )
        return text


def decide(results: Mapping[str, Mapping[Seed, float | None]], *, higher_is_better: bool = True) -> Verdict:
    """Compare the variants of ``results[variant][seed]``, where None is a run without a result.

    >>> print(decide({"a": {0: 93.0, 1: 94.0}, "b": {0: 92.0, 1: None}}))
    No winner: a has the best mean, but these runs do not tell it apart from b. \
So few seeds cannot: the smallest p-value they can reach is 1. It takes at least 6 seeds. b lacks 1 run (seed 1).
    """
    finished, missing = split_missing(results)
    sign = 1.0 if higher_is_better else -1.0
    means = {variant: sign * summarize(runs.values()).mean for variant, runs in finished.items() if runs}
    if not means:
        raise UserError("the study has no finished run; nothing can be compared.")
    best = max(means, key=means.__getitem__)
    pairs = _compare_all(finished)
    rivals = []
    for pair in pairs:
        if best in (pair.first, pair.second):
            ahead = sign * (pair.difference or 0.0) * (1 if pair.first == best else -1) > 0
            if not (ahead and pair.told_apart):
                rivals.append(pair.second if pair.first == best else pair.first)
    tested = [len(pair.seeds) for pair in pairs if pair.p is not None]
    reachable = [min(1.0, len(tested) * max(2.0 ** (1 - seeds), 2 / (_FLIPS + 1))) for seeds in tested]
    least_seeds = math.ceil(1 + math.log2(max(len(tested), 1) / ALPHA))
    return Verdict(best, tuple(rivals), tuple(pairs), min(reachable, default=None), least_seeds, dict(missing))


def _compare_all(finished: Mapping[str, Mapping[Seed, float]]) -> list[PairedDifference]:
    """Compare each pair of variants over the seeds that both have, with Holm's correction over all pairs."""
    pairs = []
    for first, second in combinations(finished, 2):
        seeds = tuple(seed for seed in finished[first] if seed in finished[second])
        differences = [finished[first][seed] - finished[second][seed] for seed in seeds]
        if not seeds:
            pairs.append(PairedDifference(first, second))
            continue
        found = summarize(differences)
        needed = None if found.std is None else seeds_to_tell_apart(found.mean, found.std)
        p = paired_p_value(differences)
        pairs.append(PairedDifference(first, second, seeds, found.mean, found.std, found.interval, p, None, needed))
    corrected = iter(holm([pair.p for pair in pairs if pair.p is not None]))
    return [pair if pair.p is None else replace(pair, p_holm=next(corrected)) for pair in pairs]


def paired_p_value(differences: Sequence[float] | Numbers) -> float:
    """Return the two-sided p-value of the sign-flip test: if nothing differed, each difference could have either sign.

    It is exact for up to 13 seeds. The smallest possible value is 2^(1 − n): five seeds cannot reach 0.05, six can.

    >>> paired_p_value([0.1, 0.2, 0.3, 0.4, 0.5])
    0.0625
    """
    from scipy.stats import permutation_test

    numbers = finite_numbers(differences, "a difference")
    if len(numbers) < 2:
        return 1.0
    found = permutation_test(
        (numbers, np.zeros_like(numbers)),
        lambda first, second, axis: np.mean(first - second, axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=_FLIPS,
        random_state=np.random.default_rng(0),
    )
    return min(1.0, float(found.pvalue))


def holm(p_values: Sequence[float]) -> list[float]:
    """Correct m p-values (Holm, 1979): the k-th smallest is multiplied by m − k + 1, and is not below the one before.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    corrected, reached = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        reached = max(reached, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = reached
    return corrected


def seeds_to_tell_apart(difference: float, std: float, power: float = 0.8, alpha: float = ALPHA) -> float:
    """Return how many seeds tell two variants apart with this power, by the paired t-test; infinity: above 1,000.

    ``std`` is that of the paired differences. With n seeds, t has n − 1 degrees of freedom and the noncentrality
    √n·|difference|/std; the power is its chance to pass the critical value. The other tail, of the wrong sign, adds
    less than 1e-5 at a power of 80 %. The answer is at least as many seeds as the sign-flip test needs to reach alpha.

    >>> seeds_to_tell_apart(difference=0.5, std=1.0)
    34
    """
    from scipy.stats import nct, t

    finite_numbers([difference, std], "the difference or its deviation")
    fewest = math.ceil(1 - math.log2(alpha))
    if difference == 0:
        return math.inf

    def is_enough(seeds: int) -> bool:
        critical = t.ppf(1 - alpha / 2, seeds - 1)
        return std == 0 or bool(nct.sf(critical, seeds - 1, math.sqrt(seeds) * abs(difference) / std) >= power)

    counts = range(fewest, MOST_SEEDS + 1)
    found = bisect_left(counts, True, key=is_enough)  # the power grows with the seeds
    return counts[found] if found < len(counts) else math.inf


def shown_seeds(seeds: float | None) -> str:
    """Write a number of seeds for a table.

    >>> shown_seeds(34), shown_seeds(math.inf), shown_seeds(None)
    ('34', 'more than 1,000', 'unknown')
    """
    if seeds is None:
        return "unknown"
    return f"more than {MOST_SEEDS:,}" if seeds == math.inf else f"{seeds:,.0f}"
