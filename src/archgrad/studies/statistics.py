"""What a study says about one variant: its runs in numbers, its rank, and its place in the space."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple, TypeVar

import numpy as np

from archgrad.errors import UserError
from archgrad.studies.intervals import Interval, finite_numbers, mean_interval, share_interval

__all__ = [
    "Agreement",
    "AverageRanks",
    "Share",
    "Standing",
    "Summary",
    "average_ranks",
    "regret",
    "seed_agreement",
    "share_of_runs",
    "split_missing",
    "standing",
    "summarize",
]

Seed = TypeVar("Seed", int, str)


class Summary(NamedTuple):
    """The runs of a variant; ``std`` (n − 1) and ``interval`` of the mean are None for one run."""

    runs: int
    mean: float
    std: float | None
    median: float
    best: float
    worst: float
    interval: Interval | None


def summarize(values: Iterable[float], *, higher_is_better: bool = True) -> Summary:
    """Summarize the results of a variant's runs.

    >>> summarize([93.0, 94.0, 95.0]).std
    1.0
    """
    numbers = finite_numbers(values)
    if not len(numbers):
        raise UserError("there is no finished run to summarize; at least one is needed.")
    low, high = float(numbers.min()), float(numbers.max())
    best, worst = (high, low) if higher_is_better else (low, high)
    same = low == high  # its mean is not rounded
    mean = low if same else float(numbers.mean())
    std = None if len(numbers) < 2 else 0.0 if same else float(numbers.std(ddof=1))
    return Summary(len(numbers), mean, std, float(np.median(numbers)), best, worst, mean_interval(numbers))


@dataclass(frozen=True)
class Share:
    """So many of all runs, with Wilson's interval of the share."""

    count: int
    total: int
    share: float
    interval: Interval


def share_of_runs(flags: Iterable[bool]) -> Share:
    """Return the share of runs that have a flag, such as of the collapsed ones.

    >>> share_of_runs([True, False, False, False]).share
    0.25
    """
    given = list(flags)
    count, total = sum(given), len(given)
    interval = share_interval(count, total)
    return Share(count, total, count / total, interval)


def split_missing(
    results: Mapping[str, Mapping[Seed, float | None]],
) -> tuple[dict[str, dict[Seed, float]], dict[str, tuple[Seed, ...]]]:
    """Return the finished runs of each variant, and the seeds that it lacks: None, or only other variants have them.

    >>> split_missing({"a": {0: 1.0, 1: None}, "b": {2: 3.0}})
    ({'a': {0: 1.0}, 'b': {2: 3.0}}, {'a': (1, 2), 'b': (0, 1)})
    """
    seeds = list(dict.fromkeys(seed for runs in results.values() for seed in runs))
    finished = {
        variant: {seed: value for seed, value in runs.items() if value is not None} for variant, runs in results.items()
    }
    for variant, runs in finished.items():
        finite_numbers(runs.values(), f"a result of {variant}")
    missing = {variant: tuple(seed for seed in seeds if seed not in runs) for variant, runs in finished.items()}
    return finished, {variant: lacking for variant, lacking in missing.items() if lacking}


class AverageRanks(NamedTuple):
    """Each variant's mean rank, 1 the best, over ``datasets``; ``left_out`` are those that lack a variant."""

    ranks: dict[str, float]
    datasets: tuple[str, ...]
    left_out: dict[str, tuple[str, ...]]


def average_ranks(results: Mapping[str, Mapping[str, float | None]], *, higher_is_better: bool = True) -> AverageRanks:
    """Rank the variants on each data set, and average; ties share the mean of their ranks.

    ``results[data][variant]`` is a mean. Only data sets on which all variants have one are ranked; the others are
    named with the variants that they lack.

    >>> average_ranks({"digits": {"a": 1.0, "b": 2.0}, "wine": {"a": 3.0, "b": 3.0}}).ranks
    {'a': 1.75, 'b': 1.25}
    """
    from scipy.stats import rankdata

    variants = list(dict.fromkeys(variant for row in results.values() for variant in row))
    lacking = {data: tuple(name for name in variants if row.get(name) is None) for data, row in results.items()}
    complete = [data for data, names in lacking.items() if not names]
    sign = -1.0 if higher_is_better else 1.0
    rows = [sign * finite_numbers(results[data][name] for name in variants) for data in complete]
    ranks = rankdata(rows, axis=1).mean(axis=0).tolist() if rows and variants else []
    left_out = {data: names for data, names in lacking.items() if names}
    return AverageRanks(dict(zip(variants, ranks, strict=bool(ranks))), tuple(complete), left_out)


def regret(found: float, best: float, *, higher_is_better: bool = True) -> float:
    """Return how much worse the found value is than the best of the table: best − found, for errors found − best.

    >>> regret(94.0, 94.5)
    0.5
    """
    finite_numbers([found, best], "a value")
    return best - found if higher_is_better else found - best


class Standing(NamedTuple):
    """How many of a space's architectures are strictly worse than the found one, how many equal it, and how many all.

    An equal one, such as the found architecture itself, does not count as worse.
    """

    worse: int
    equal: int
    total: int

    @property
    def share_worse(self) -> float:
        """The share that is strictly worse."""
        return self.worse / self.total


def standing(found: float, space: Iterable[float], *, higher_is_better: bool = True) -> Standing:
    """Compare a found value with those of all architectures of the space.

    >>> standing(2.0, [1.0, 1.5, 2.0, 2.0, 3.0]).share_worse
    0.4
    """
    finite_numbers([found], "the found value")
    values = finite_numbers(space, "a value of the space")
    if not len(values):
        raise UserError("the space has no values; give those of all its architectures.")
    worse = values < found if higher_is_better else values > found
    return Standing(int(worse.sum()), int((values == found).sum()), len(values))


class Agreement(NamedTuple):
    """The mean rank correlation over pairs of seeds; ``undefined`` pairs have a vector of equal numbers."""

    tau: float | None
    pairs: int
    undefined: int


def seed_agreement(vectors: Mapping[Seed, Iterable[float]]) -> Agreement:
    """Average Kendall's τ-b between the vectors of all pairs of seeds, such as the probabilities of the operations.

    >>> seed_agreement({0: [1.0, 2.0, 3.0], 1: [1.0, 3.0, 2.0]}).pairs
    1
    """
    from scipy.stats import kendalltau

    numbers = {seed: finite_numbers(vector, f"a number of seed {seed}") for seed, vector in vectors.items()}
    lengths = {len(vector) for vector in numbers.values()}
    if len(lengths) > 1:
        raise UserError(f"the seeds have vectors of {sorted(lengths)} numbers; give each the same decisions.")
    taus = [float(kendalltau(first, second).statistic) for first, second in combinations(numbers.values(), 2)]
    defined = [tau for tau in taus if not math.isnan(tau)]
    return Agreement(sum(defined) / len(defined) if defined else None, len(defined), len(taus) - len(defined))
