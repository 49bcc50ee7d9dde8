"""The curves of a study: the mean of every variant over epochs, seconds or architecture steps, with a band."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from archgrad.diagnostics.records import number_in
from archgrad.errors import look_up
from archgrad.loop.records import read_records
from archgrad.studies.folder import StudyFolder
from archgrad.studies.plan import PlannedRun, StudyPlan
from archgrad.studies.results import BenchmarkResults
from archgrad.studies.statistics import Interval, finite_numbers, mean_intervals

__all__ = ["AGAINST", "MeanPoint", "anytime_curve", "study_curves"]

AGAINST = {"epochs": "epochs", "seconds": "seconds of search", "arch_steps": "architecture steps"}
"""What a curve may run over, and the name of its axis."""
_RESAMPLES = 999
"""Fewer than for a table: the band has many points, and a drawing shows no third digit."""

Records = Sequence[Mapping[str, Any]]


class MeanPoint(NamedTuple):
    """The mean of the runs that have begun by ``x``, and its 95 % interval; None for one run."""

    x: float
    runs: int
    mean: float
    band: Interval | None


def anytime_curve(runs: Mapping[int, Sequence[tuple[float, float]]]) -> list[MeanPoint]:
    """Average runs at all x of all runs; ``runs[seed]`` are points (x, value) in order of x.

    A run holds its last value until the next one, and after its end. It has no value before its first point.

    >>> [(point.x, point.runs, point.mean) for point in anytime_curve({0: [(1, 0.5), (3, 0.9)], 1: [(2, 0.7)]})]
    [(1.0, 1, 0.5), (2.0, 2, 0.6), (3.0, 2, 0.8)]
    """
    curves = [
        [finite_numbers(axis, f"a number of seed {seed}") for axis in zip(*points, strict=True)]
        for seed, points in runs.items()
        if points
    ]
    if not curves:
        return []
    grid = np.unique(np.concatenate([x for x, _ in curves]))
    last = [np.searchsorted(x, grid, side="right") - 1 for x, _ in curves]
    held = np.stack([values[place] for place, (_, values) in zip(last, curves, strict=True)], axis=1)
    begun = np.stack(last, axis=1) >= 0
    points = []
    for pattern in np.unique(begun, axis=0):  # all rows with the same runs at once
        rows = np.flatnonzero((begun == pattern).all(axis=1))
        own = held[np.ix_(rows, np.flatnonzero(pattern))]
        bands: Sequence[Interval | None] = [None] * len(rows)
        if pattern.sum() > 1:
            ends = zip(*mean_intervals(own, resamples=_RESAMPLES), strict=True)
            bands = [Interval(float(low), float(high)) for low, high in ends]
        for x, values, band in zip(grid[rows], own, bands, strict=True):
            points.append(MeanPoint(float(x), len(values), float(values.mean()), band))
    return sorted(points)


def study_curves(
    folder: StudyFolder, plan: StudyPlan, results: BenchmarkResults, measure: str, against: str
) -> dict[str, list[MeanPoint]]:
    """Return the mean and the band of every variant of a benchmark; epochs without the measure are left out.

    The epochs of a search without gradients are its queries; it has neither seconds nor architecture steps.
    """
    look_up("axis", against, AGAINST)
    results.check_measure(measure)
    curves = {}
    for variant in plan.variants:
        runs = results.runs[variant.name]
        if not runs or (variant.is_blackbox and against != "epochs"):
            continue
        records = {seed: read_records(folder.run_folder(one.run)) for seed, one in runs.items()}
        longest = max(records.values(), key=len)
        steps = _arch_steps(plan, next(iter(runs.values())).run, longest) if against == "arch_steps" else []
        points = {seed: _points(own, measure, against, steps) for seed, own in records.items()}
        if any(points.values()):
            curves[variant.name] = anytime_curve(points)
    return curves


def _points(records: Records, measure: str, against: str, steps: Sequence[float]) -> list[tuple[float, float]]:
    """Return where on the axis every epoch ends, with the measure."""
    if against == "epochs":
        lengths = [1.0] * len(records)
    else:
        lengths = list(steps) or [number_in(record, "seconds") or 0.0 for record in records]
    pairs = zip(accumulate(lengths), (number_in(record, measure) for record in records), strict=False)
    return [(x, value) for x, value in pairs if value is not None]


def _arch_steps(plan: StudyPlan, run: PlannedRun, records: Records) -> list[float]:
    """Count the architecture steps of every epoch, as the setup of the search, or of its stage, says.

    They are those of one seed: only updates that are drawn at random differ, by a few, between seeds.
    """
    from archgrad.loop.estimate import stages_of
    from archgrad.loop.setup import Setup

    config = plan.config(run).with_sizes()
    data = config.load_data()
    setups = [Setup.of(*stage, data, config) for stage in stages_of(config.build_space(), config.build_method())]
    stages = [int(number_in(record, "stage") or 1) - 1 for record in records]
    found, epochs = [], [0] * len(setups)
    for stage in stages:
        setup, first = setups[stage], epochs[stage] * setups[stage].steps
        found.append(float(sum(setup.moves(index).architecture for index in range(first, first + setup.steps))))
        epochs[stage] += 1
    return found
