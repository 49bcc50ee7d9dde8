"""Plot a measure of several runs over their epochs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from archgrad.config import SearchConfig, read_run_config
from archgrad.errors import UserError, unknown
from archgrad.loop.folder import read_records
from archgrad.report import Curve, curve_of, draw_curves
from archgrad.report.curves import Line, axis_label, draw_lines
from archgrad.report.experiments import experiment_of, labels_of
from archgrad.studies import Study
from archgrad.studies.curves import AGAINST, MeanPoint
from archgrad.tasks import MetricInfo
from archgrad.workflows.architecture import short_name

__all__ = ["curves_content", "plot_runs", "plot_study", "show_curves"]


def plot_runs(folders: Sequence[Path], measure: str | None, out: Path) -> tuple[str, dict[str, Curve]]:
    """Draw one measure of several runs into a file; runs that differ only in their seeds share a curve.

    The default measure is the oracle accuracy that all runs have; if no run has one, it is the main metric of held-out
    images, or of training images for trainings that hold out none, as the last one of a fit.
    """
    groups, curves = _groups(folders), {}
    measure = _usual_measure(folders) if measure is None else measure
    for label, group in groups.items():
        curve = curve_of([_measured(folder, measure) for folder in group], measure)
        if not curve:
            raise UserError(f"the runs of {label} share no epoch, so there is nothing to plot; leave some out.")
        curves[label] = curve
    draw_curves(curves, measure, out, _metric_of(folders[0]))
    return measure, curves


def _usual_measure(folders: Sequence[Path]) -> str:
    """Return the default measure; never put accuracies of different kinds into one figure."""
    kinds = {
        folder: {name for record in read_records(folder) for name in record if name.startswith("oracle_")}
        for folder in folders
    }
    if not any(kinds.values()):
        kinds = {folder: {_main_measure(folder)} for folder in folders}
    shared = set.intersection(*kinds.values())
    if shared:
        return min(shared)
    other = next(folder for folder in folders if kinds[folder] != kinds[folders[0]])
    own, others = (", ".join(sorted(kinds[one])) or "no oracle accuracy" for one in (folders[0], other))
    raise UserError(
        f"{folders[0]} has {own}, and {other} has {others}: these cannot be compared; name a --measure that all runs "
        f"have, or plot them separately."
    )


def _main_measure(folder: Path) -> str:
    metric = _metric_of(folder).name
    held_out = any(f"heldout_{metric}" in record for record in read_records(folder))
    return f"{'heldout' if held_out else 'train'}_{metric}"


def _metric_of(folder: Path) -> MetricInfo:
    records = read_records(folder)
    return MetricInfo.of_record(records[-1] if records else {})


def _groups(folders: Sequence[Path]) -> dict[str, list[Path]]:
    """Group the runs of one experiment under a label that distinguishes it from the others."""
    configs = {folder: read_run_config(folder) for folder in folders}
    experiments = {folder: _experiment(config) for folder, config in configs.items()}
    groups: dict[str, list[Path]] = {}
    for folder, label in zip(folders, labels_of([experiments[one] for one in folders]), strict=True):
        same = groups.setdefault(label, [])
        for other in same:
            if configs[other].seed == configs[folder].seed:
                raise UserError(f"{other} and {folder} are the same search with the same seed; leave one of them out.")
        same.append(folder)
    return groups


def _experiment(config: SearchConfig) -> dict[str, Any]:
    """Return everything that a search depends on, except its seed."""
    settings, training = dict(config.settings), {}
    if "space.architecture" in settings:
        training = {"space": settings.pop("space.of"), "architecture": short_name(settings.pop("space.architecture"))}
    return experiment_of(asdict(config) | training, settings)


def _measured(folder: Path, measure: str) -> list[dict[str, Any]]:
    records = read_records(folder)
    if not records:
        raise UserError(f"no epoch of {folder} is finished; leave it out, or resume it first.")
    if not any(measure in record for record in records):
        known = sorted({name for record in records for name, value in record.items() if isinstance(value, int | float)})
        raise unknown(f"measure in {folder}:", measure, known)
    return records


def curves_content(curves: Mapping[str, Curve]) -> dict[str, list[dict[str, Any]]]:
    """Return the curves, ready for JSON."""
    return {label: [point._asdict() | {"interval": point.interval} for point in line] for label, line in curves.items()}


def show_curves(curves: Mapping[str, Curve], measure: str) -> str:
    """Show the last point of each curve in a line."""
    lines = []
    for label, line in curves.items():
        last = line[-1]
        interval = "" if last.interval is None else f" ± {last.interval:.3g} (95 % interval of the mean"
        spread = interval and f"{interval}; standard deviation {last.deviation:.3g}, n = {last.runs})"
        lines.append(f"{label}: {measure} {last.mean:.4g}{spread} after epoch {last.epoch}")
    return "\n".join(lines)


def plot_study(study: Study, measure: str | None, against: str, out: Path) -> dict[Path, dict[str, Any]]:
    """Draw the curves of all variants of a study, a picture for each benchmark; return what was drawn, by picture."""
    drawn: dict[Path, dict[str, Any]] = {}
    curves, results = study.curves(measure, against), study.results
    for result in results:
        name, own = result.benchmark.name, measure or result.usual_measure
        path = out if len(results) == 1 else out.with_stem(f"{out.stem}-{name}")
        axes = ("epoch" if against == "epochs" else AGAINST[against], axis_label(own, result.metric))
        lines = {variant: _as_line(points) for variant, points in curves[name].items()}
        draw_lines(lines, axes, "line: mean over seeds, band: 95 % interval of the mean", path)
        drawn[path] = {
            "benchmark": name,
            "measure": own,
            "against": against,
            "curves": {variant: [_plain(point) for point in points] for variant, points in curves[name].items()},
        }
    return drawn


def _as_line(points: Sequence[MeanPoint]) -> Line:
    """Return the points as a line with its band; where there is only one run, the band has no width."""
    bands = [(point.mean, point.mean) if point.band is None else point.band for point in points]
    has_band = any(point.band is not None for point in points)
    low, high = ([band[end] for band in bands] if has_band else None for end in (0, 1))
    return Line([point.x for point in points], [point.mean for point in points], low, high)


def _plain(point: MeanPoint) -> dict[str, Any]:
    return point._asdict() | {"band": None if point.band is None else list(point.band)}
