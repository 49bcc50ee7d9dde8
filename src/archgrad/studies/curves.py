"""Any-time curves: the mean of many runs over epochs, seconds or architecture steps, with a band."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from archgrad.errors import UserError
from archgrad.studies.intervals import Interval, Numbers, finite_numbers, mean_intervals

__all__ = ["CurvePoint", "anytime_curve"]

_RESAMPLES = 999
"""Fewer than for a table: the band has many points, and a drawing shows no third digit."""


class CurvePoint(NamedTuple):
    """The mean of the runs that have begun by ``x``, and its 95 % interval; None for one run."""

    x: float
    runs: int
    mean: float
    band: Interval | None


def anytime_curve(
    runs: Mapping[int, Sequence[tuple[float, float]]], grid: Iterable[float] | None = None
) -> list[CurvePoint]:
    """Average runs on a common grid, by default all x of all runs; ``runs[seed]`` are points (x, value) in order of x.

    A run holds its last value until the next one, and after its end. It has no value before its first point; where no
    run has one, there is no point.

    >>> [(point.x, point.runs, point.mean) for point in anytime_curve({0: [(1, 0.5), (3, 0.9)], 1: [(2, 0.7)]})]
    [(1.0, 1, 0.5), (2.0, 2, 0.6), (3.0, 2, 0.8)]
    """
    curves = [_curve(seed, points) for seed, points in runs.items() if len(points)]
    if not curves:
        return []
    xs = np.unique(np.concatenate([x for x, _ in curves]) if grid is None else finite_numbers(grid, "a grid point"))
    held = np.stack([_held(x, values, xs) for x, values in curves], axis=1)
    begun = np.isfinite(held)
    bands = _bands(held, begun)
    return [
        CurvePoint(float(x), int(has.sum()), float(row[has].mean()), band)
        for x, row, has, band in zip(xs, held, begun, bands, strict=True)
        if has.any()
    ]


def _curve(seed: int, points: Sequence[tuple[float, float]]) -> tuple[Numbers, Numbers]:
    x = finite_numbers((point[0] for point in points), f"an x of seed {seed}")
    if (np.diff(x) < 0).any():
        raise UserError(f"the points of seed {seed} are not in order of x; sort them.")
    return x, finite_numbers((point[1] for point in points), f"a value of seed {seed}")


def _held(x: Numbers, values: Numbers, grid: Numbers) -> Numbers:
    """Return the last value at or before each x of the grid; NaN before the first."""
    last = np.searchsorted(x, grid, side="right") - 1
    return np.where(last < 0, np.nan, values[np.maximum(last, 0)])


def _bands(held: Numbers, begun: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> list[Interval | None]:
    """Return the interval of each row, for all rows with the same runs at once."""
    bands: list[Interval | None] = [None] * len(held)
    for pattern in np.unique(begun, axis=0):
        rows = np.flatnonzero((begun == pattern).all(axis=1))
        if pattern.sum() >= 2:
            low, high = mean_intervals(held[np.ix_(rows, np.flatnonzero(pattern))], resamples=_RESAMPLES)
            for row, *ends in zip(rows, low, high, strict=True):
                bands[row] = Interval(*map(float, ends))
    return bands
