"""Curves over epochs: one line per group of runs with a band for its seeds, or many panels of one run."""

from __future__ import annotations

import fnmatch
import itertools
import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

from archgrad.parts.fields import checked
from archgrad.report.figure import check_picture, save_figure, tick_whole_epochs
from archgrad.tasks import ACCURACY, MetricInfo

__all__ = [
    "Curve",
    "EpochStatistics",
    "Line",
    "axis_label",
    "caption_of",
    "curve_of",
    "draw_curves",
    "draw_lines",
    "draw_panels",
    "panels_of",
]  # fmt: skip


class Line(NamedTuple):
    """A line to draw: its points, and the band around each, None without one."""

    xs: Sequence[float]
    means: Sequence[float]
    low: Sequence[float] | None
    high: Sequence[float] | None


class EpochStatistics(NamedTuple):
    """Statistics over the runs of a group at one epoch; the standard deviation of one run is 0."""

    epoch: int
    mean: float
    deviation: float
    least: float
    greatest: float
    runs: int

    @property
    def interval(self) -> float | None:
        """Half the width of the 95 % confidence interval of the mean, t·s/√n; None for one run.

        >>> round(EpochStatistics(1, 0.0, 1.0, -1.0, 1.0, 5).interval, 3)
        1.242
        """
        if self.runs < 2:
            return None
        from scipy.stats import t

        return float(t.ppf(0.975, self.runs - 1)) * self.deviation / math.sqrt(self.runs)


Curve = list[EpochStatistics]

_DASHES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
_COLORS = 8
_MARKERS = "osv^DPX"
_LONGEST_COLUMN = 18
_WIDEST_LABEL = 44
_UNITS = {"loss": "nats", "entropy": "nats", "accuracy": "%", "oracle": "%", "regret": "%", "seconds": "s"}


@checked
def curve_of(histories: Sequence[Sequence[Mapping[str, Any]]], measure: str) -> Curve:
    """Join the records of several runs into one curve, without epochs that lack the measure, as after a tie.

    >>> curve_of([[{"epoch": 1, "loss": 3.0}], [{"epoch": 1, "loss": 1.0}, {"epoch": 2, "loss": 0.5}]], "loss")[0][:3]
    (1, 2.0, 1.4142135623730951)
    """
    runs = [{record["epoch"]: record[measure] for record in run if _has(record, measure)} for run in histories]
    shared = sorted(set.intersection(*(set(run) for run in runs))) if runs else []
    return [_point(epoch, [run[epoch] for run in runs]) for epoch in shared]


def _point(epoch: int, values: list[float]) -> EpochStatistics:
    deviation = stdev(values) if len(values) > 1 else 0.0
    return EpochStatistics(epoch, mean(values), deviation, min(values), max(values), len(values))


def _has(record: Mapping[str, Any], measure: str) -> bool:
    value = record.get(measure)
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def axis_label(measure: str, metric: MetricInfo = ACCURACY) -> str:
    """Return a measure in words, with its unit; ``metric`` is the main metric of the runs.

    >>> axis_label("heldout_accuracy"), axis_label("skips"), axis_label("heldout_f1", MetricInfo("f1", unit="%"))
    ('heldout accuracy (%)', 'skips', 'heldout f1 (%)')
    """
    units = _UNITS if metric == ACCURACY else {**_UNITS, "loss": "", metric.name: metric.unit}
    unit = next((unit for word, unit in reversed(units.items()) if word in measure), "")
    name = measure.replace("oracle_", "accuracy_in_the_table_").replace("_", " ")
    return f"{name} ({unit})" if unit else name


def caption_of(curves: Mapping[str, Curve]) -> str:
    """Describe the lines and bands.

    >>> caption_of({"darts": curve_of([[{"epoch": 1, "loss": 3.0}]], "loss")})
    'line: one run (n = 1)'
    """
    counts = sorted({point.runs for curve in curves.values() for point in curve})
    if counts == [1]:
        return "line: one run (n = 1)"
    told = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"line: mean over seeds, band: ± one standard deviation (n = {told})"


@checked
def draw_curves(curves: Mapping[str, Curve], measure: str, path: Path, metric: MetricInfo = ACCURACY) -> None:
    """Draw labeled curves into a picture, with the legend beside it and a caption below."""
    lines = {label: _line_of(curve) for label, curve in _labeled(curves)}
    draw_lines(lines, ("epoch", axis_label(measure, metric)), caption_of(curves), path)


def _line_of(curve: Curve) -> Line:
    """Return a curve as a line with a band of one standard deviation."""
    epochs, means = [point.epoch for point in curve], [point.mean for point in curve]
    if all(point.runs == 1 for point in curve):
        return Line(epochs, means, None, None)
    low, high = ([point.mean + sign * point.deviation for point in curve] for sign in (-1, 1))
    return Line(epochs, means, low, high)


def draw_lines(lines: Mapping[str, Line], axes_names: tuple[str, str], caption: str, path: Path) -> None:
    """Draw labeled lines over an axis named "epoch", or another one, into a picture."""
    check_picture(path)
    label_x, label_y = axes_names
    rows = [row for label in lines for row in textwrap.wrap(label, _WIDEST_LABEL) or [""]]
    columns = -(-len(rows) // _LONGEST_COLUMN)
    longest = max(map(len, rows), default=0)
    within = _share_of_hundred if "(%)" in label_y else float

    def fill(figure: Any) -> None:
        axes = figure.add_subplot()
        for style, (label, line) in zip(_styles(), lines.items(), strict=False):
            _draw_line(axes, textwrap.fill(label, _WIDEST_LABEL), line, style, within)
        axes.set_xlabel(label_x)
        axes.set_ylabel(label_y)
        axes.grid(alpha=0.3)
        tick_whole_epochs(axes)
        figure.legend(loc="outside right upper", fontsize="small", ncols=columns)
        figure.supxlabel(caption, fontsize="small", color="0.35")

    save_figure(fill, path, (7 + columns * (0.8 + 0.085 * longest), 4.8))


def _labeled(curves: Mapping[str, Curve]) -> list[tuple[str, Curve]]:
    """Return labels and curves; labels include the number of runs if it differs between curves."""
    counts = {label: curve[0].runs for label, curve in curves.items() if curve}
    differ = len(set(counts.values())) > 1
    return [(f"{label} (n = {counts[label]})" if differ else label, curve) for label, curve in curves.items()]


def _share_of_hundred(value: float) -> float:
    return min(max(value, 0.0), 100.0)


def _draw_line(axes: Any, label: str, line: Line, style: Mapping[str, Any], within: Callable[[float], float]) -> None:
    """Draw a line with its band; ``within`` clips the band to the range of the measure."""
    every = max(len(line.xs) // 8, 1)
    (drawn,) = axes.plot(line.xs, line.means, label=label, markersize=4, markevery=every, linewidth=1.4, **style)
    if line.low is not None and line.high is not None:
        low, high = (list(map(within, end)) for end in (line.low, line.high))
        axes.fill_between(line.xs, low, high, color=drawn.get_color(), alpha=0.12, linewidth=0)


def _styles() -> itertools.chain[dict[str, Any]]:
    """Yield line styles; the first 40 differ in color or dashes, then they repeat."""
    round_ = [
        {"color": f"C{color}", "linestyle": dash, "marker": _MARKERS[(number + color) % len(_MARKERS)]}
        for number, dash in enumerate(_DASHES)
        for color in range(_COLORS)
    ]
    return itertools.chain.from_iterable(itertools.repeat(round_))


_PANELS: Mapping[str, tuple[str, ...]] = {
    "loss (nats)": ("train_loss", "arch_loss", "heldout_loss"),
    "accuracy (%)": ("train_accuracy", "arch_accuracy", "heldout_accuracy", "heldout_chance"),
    "probability of the operations, mean over the edges": ("probability_*",),
    "entropy of the mixture (nats)": ("entropy", "entropy_max"),
    "skip connections (share of the cell, mean probability)": ("skip_share", "skip_weight"),
    "layer alignment": ("alignment", "sign_alignment"),
    "gradient of skip connections and convolutions": (
        "skip_gradient_first",
        "skip_gradient_last",
        "conv_gradient_first",
        "conv_gradient_last",
    ),
    "largest eigenvalue of the architecture's Hessian": ("alpha_eigenvalue",),
    "movement of the mixture": ("movement",),
    "accuracy of the cell in the benchmark's table (%)": ("oracle_*",),
}
"""The measures of each panel of a classification, by title; a star matches anything."""

_RANGES: Mapping[str, tuple[float, float | None]] = {
    "accuracy (%)": (0.0, 100.0),
    "probability of the operations, mean over the edges": (0.0, None),
    "entropy of the mixture (nats)": (0.0, None),
    "skip connections (share of the cell, mean probability)": (0.0, 1.0),
}
"""Axis ranges that include zero, so that a small change looks small."""
_LIMITS = ("entropy_max", "heldout_chance")
"""Reference values, drawn as dashed gray lines."""
_PANEL_COLUMNS = 2
_PANEL_WIDTH, _PANEL_HEIGHT = 11.0, 2.7


@checked
def panels_of(records: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, list[tuple[int, float]]]]:
    """Return (epoch, value) pairs of each measure in each panel, without measures that no record has.

    >>> panels_of([{"epoch": 1, "movement": 1.6}, {"epoch": 2, "movement": 1.5}])
    {'movement of the mixture': {'movement': [(1, 1.6), (2, 1.5)]}}
    """
    panels, known = {}, sorted({name for record in records for name in record})
    for title, patterns in _titled(MetricInfo.of_record(records[-1] if records else {})).items():
        measures = [name for pattern in patterns for name in fnmatch.filter(known, pattern)]
        lines = {name: [(point.epoch, point.mean) for point in curve_of([records], name)] for name in measures}
        drawn = {name: line for name, line in lines.items() if line}
        if drawn:
            panels[title] = drawn
    return panels


def _titled(metric: MetricInfo) -> dict[str, tuple[str, ...]]:
    """Return the measures of each panel, with those of the task's main metric in the place of accuracy.

    >>> list(_titled(MetricInfo("rmse", higher_is_better=False)).items())[1]
    ('rmse', ('train_rmse', 'arch_rmse', 'heldout_rmse', 'heldout_chance'))
    """
    if metric == ACCURACY:
        return dict(_PANELS)
    (_, losses), (_, accuracies), *others = _PANELS.items()
    unit = metric.unit and f" ({metric.unit})"
    own = tuple(name.replace("accuracy", metric.name) for name in accuracies)
    return {"loss": losses} | {f"{metric.name}{unit}": own} | dict(others)


@checked
def draw_panels(records: Sequence[Mapping[str, Any]], path: Path, since: int | None = None) -> None:
    """Draw the records of a run into a picture; ``since`` marks an epoch in every panel."""
    check_picture(path)
    panels = panels_of(records)
    rows = -(-max(len(panels), 1) // _PANEL_COLUMNS)

    def fill(figure: Any) -> None:
        for number, (title, lines) in enumerate(panels.items(), start=1):
            axes = figure.add_subplot(rows, _PANEL_COLUMNS, number)
            for name, line in lines.items():
                _draw_measure(axes, name, line)
            if since is not None:
                axes.axvline(since, color="black", linestyle=":", linewidth=1)
            axes.set_title(title, fontsize="medium")
            axes.set_xlabel("epoch")
            axes.grid(alpha=0.3)
            axes.set_ylim(*_RANGES.get(title, (None, None)))
            tick_whole_epochs(axes)
            if len(lines) > 1:
                axes.legend(fontsize="x-small", loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)

    save_figure(fill, path, (_PANEL_WIDTH, _PANEL_HEIGHT * rows))


def _draw_measure(axes: Any, name: str, line: Sequence[tuple[int, float]]) -> None:
    epochs, values = zip(*line, strict=True)
    marker = "o" if len(line) < 3 else None
    label = name.removeprefix("probability_").replace("_", " ")
    style = {"color": "0.5", "linestyle": "--"} if name in _LIMITS else {}
    axes.plot(epochs, values, label=label, marker=marker, **style)
