"""A figure of several panels over the epochs of one run."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from archgrad.parts.fields import checked
from archgrad.report.curves import curve_of
from archgrad.report.figure import check_picture, save_figure, tick_whole_epochs
from archgrad.tasks import ACCURACY, MetricInfo

__all__ = ["PANELS", "draw_panels", "panels_of"]

PANELS: Mapping[str, tuple[str, ...]] = {
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
_COLUMNS = 2
_WIDTH, _HEIGHT = 11.0, 2.7


@checked
def panels_of(records: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, list[tuple[int, float]]]]:
    """Return (epoch, value) pairs of each measure in each panel, without measures that no record has.

    >>> panels_of([{"epoch": 1, "movement": 1.6}, {"epoch": 2, "movement": 1.5}])
    {'movement of the mixture': {'movement': [(1, 1.6), (2, 1.5)]}}
    """
    panels, known = {}, sorted({name for record in records for name in record})
    for title, patterns in _panels(MetricInfo.of_record(records[-1] if records else {})).items():
        measures = [name for pattern in patterns for name in fnmatch.filter(known, pattern)]
        lines = {name: [(point.epoch, point.mean) for point in curve_of([records], name)] for name in measures}
        drawn = {name: line for name, line in lines.items() if line}
        if drawn:
            panels[title] = drawn
    return panels


def _panels(metric: MetricInfo) -> dict[str, tuple[str, ...]]:
    """Return the measures of each panel, with those of the task's main metric in the place of accuracy.

    >>> list(_panels(MetricInfo("rmse", higher_is_better=False)).items())[1]
    ('rmse', ('train_rmse', 'arch_rmse', 'heldout_rmse', 'heldout_chance'))
    """
    if metric == ACCURACY:
        return dict(PANELS)
    (_, losses), (_, accuracies), *others = PANELS.items()
    unit = metric.unit and f" ({metric.unit})"
    own = tuple(name.replace("accuracy", metric.name) for name in accuracies)
    return {"loss": losses} | {f"{metric.name}{unit}": own} | dict(others)


@checked
def draw_panels(records: Sequence[Mapping[str, Any]], path: Path, since: int | None = None) -> None:
    """Draw the records of a run into a picture; ``since`` marks an epoch in every panel."""
    check_picture(path)
    panels = panels_of(records)
    rows = -(-max(len(panels), 1) // _COLUMNS)

    def fill(figure: Any) -> None:
        for number, (title, lines) in enumerate(panels.items(), start=1):
            axes = figure.add_subplot(rows, _COLUMNS, number)
            for name, line in lines.items():
                _draw_line(axes, name, line)
            if since is not None:
                axes.axvline(since, color="black", linestyle=":", linewidth=1)
            axes.set_title(title, fontsize="medium")
            axes.set_xlabel("epoch")
            axes.grid(alpha=0.3)
            axes.set_ylim(*_RANGES.get(title, (None, None)))
            tick_whole_epochs(axes)
            if len(lines) > 1:
                axes.legend(fontsize="x-small", loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)

    save_figure(fill, path, (_WIDTH, _HEIGHT * rows))


def _draw_line(axes: Any, name: str, line: Sequence[tuple[int, float]]) -> None:
    epochs, values = zip(*line, strict=True)
    marker = "o" if len(line) < 3 else None
    label = name.removeprefix("probability_").replace("_", " ")
    style = {"color": "0.5", "linestyle": "--"} if name in _LIMITS else {}
    axes.plot(epochs, values, label=label, marker=marker, **style)
