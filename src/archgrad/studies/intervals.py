"""Confidence intervals of a mean and of a share, which hold for few seeds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from archgrad.errors import UserError, shortened

__all__ = ["CONFIDENCE", "Interval", "Numbers", "finite_numbers", "mean_interval", "mean_intervals", "share_interval"]

Numbers = NDArray[np.float64]

CONFIDENCE = 0.95
_RESAMPLES = 9_999
_NOISE = 0.5
_BLOCK = 4_000_000
"""So many numbers are drawn again at once, 32 MB."""


class Interval(NamedTuple):
    """The two ends of a confidence interval."""

    low: float
    high: float


def finite_numbers(values: Iterable[Any], what: str = "a result") -> Numbers:
    """Return numbers as an array; raise a UserError for anything else, infinity and NaN."""
    given = list(values)
    for value in given:
        is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
        if not is_number or not np.isfinite(value):
            raise UserError(f"{what} is {shortened(value)}; it must be a finite number. Leave out runs that failed.")
    return np.array(given, dtype=np.float64)


def mean_interval(values: Iterable[float], confidence: float = CONFIDENCE) -> Interval | None:
    """Return the confidence interval of the mean, from independent runs; None for fewer than two runs.

    See ``mean_intervals``. The same numbers always have the same interval.

    >>> mean_interval([54.3, 54.3, 54.3]), mean_interval([54.3])
    (Interval(low=54.3, high=54.3), None)
    """
    numbers = finite_numbers(values)
    if len(numbers) < 2:
        return None
    low, high = mean_intervals(numbers[None], confidence)
    return Interval(float(low[0]), float(high[0]))


def mean_intervals(
    studies: Numbers, confidence: float = CONFIDENCE, resamples: int = _RESAMPLES
) -> tuple[Numbers, Numbers]:
    """Return the ends of the interval of each mean, by the smoothed bootstrap-t; ``studies`` is [studies, runs].

    x* = values drawn again with replacement + ½·s·z, z standard normal, has t* = (mean x* − mean x) / (s*/√n). The
    interval is [mean − t*(97.5 %)·s/√n, mean − t*(2.5 %)·s/√n] (Efron & Tibshirani, 1993, Section 12.5, with the
    smoothing of Section 16.4). Percentile and BCa bootstraps of five runs cover the true mean in 81 to 85 % of studies
    instead of 95 %. Without the noise, runs that found the same architecture have s* ≈ 0 and t* without bound.
    """
    studies = np.asarray(studies, dtype=np.float64)
    runs = studies.shape[1]
    generator = np.random.default_rng(0)
    chosen = generator.integers(runs, size=(resamples, runs))
    noise = _NOISE * generator.standard_normal((resamples, runs))
    means, scales = studies.mean(axis=1), studies.std(axis=1, ddof=1)
    same = np.ptp(studies, axis=1) == 0
    scales[same], means[same] = 1.0, studies[same, 0]
    standard = (studies - means[:, None]) / scales[:, None]
    tails = [(1 + confidence) / 2, (1 - confidence) / 2]
    quantiles = np.empty((2, len(studies)))
    block = max(1, _BLOCK // (resamples * runs))
    for start in range(0, len(studies), block):
        again = standard[start : start + block, chosen] + noise
        ratios = again.mean(axis=2) / again.std(axis=2, ddof=1)
        quantiles[:, start : start + block] = np.quantile(ratios, tails, axis=1)
    scales[same] = 0.0
    return means - quantiles[0] * scales, means - quantiles[1] * scales


def share_interval(count: int, total: int, confidence: float = CONFIDENCE) -> Interval:
    """Return Wilson's interval of a share, such as of collapsed runs; it holds for few runs and near 0 and 1.

    >>> [round(end, 3) for end in share_interval(0, 5)]
    [0.0, 0.434]
    """
    from scipy.stats import binomtest

    if not 0 <= count <= total or total < 1:
        raise UserError(f"{count} of {total} runs is no share; give a count from 0 to the number of runs.")
    ends = binomtest(count, total).proportion_ci(confidence, method="wilson")
    return Interval(float(ends.low), float(ends.high))
