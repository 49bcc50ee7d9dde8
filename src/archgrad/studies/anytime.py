"""The curves of a study: a measure of every variant over epochs, seconds or architecture steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from archgrad.diagnostics.records import number_in
from archgrad.errors import look_up
from archgrad.loop.folder import read_records
from archgrad.studies.curves import CurvePoint, anytime_curve
from archgrad.studies.folder import StudyFolder
from archgrad.studies.plan import PlannedRun, StudyPlan
from archgrad.studies.results import BenchmarkResults

__all__ = ["AGAINST", "study_curves"]

AGAINST = {
    "epochs": "epochs",
    "seconds": "seconds of search",
    "arch_steps": "architecture steps",
}
"""What a curve may run over, and the name of its axis."""

Records = Sequence[Mapping[str, Any]]


def study_curves(
    folder: StudyFolder, plan: StudyPlan, results: BenchmarkResults, measure: str, against: str
) -> dict[str, list[CurvePoint]]:
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
    from archgrad.config.resolve import resolve
    from archgrad.loop.experiment import Experiment
    from archgrad.loop.stages import example_stages

    config = plan.config(run).with_sizes()
    data = config.load_data()
    setups = [Experiment.of(stage, data) for stage in example_stages(resolve(config))]
    stages = [int(number_in(record, "stage") or 1) - 1 for record in records]
    found, epochs = [], [0] * len(setups)
    for stage in stages:
        setup, first = setups[stage], epochs[stage] * setups[stage].steps
        found.append(float(sum(setup.moves(index).architecture for index in range(first, first + setup.steps))))
        epochs[stage] += 1
    return found
