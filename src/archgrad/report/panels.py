"""A figure of several panels over the epochs of one run."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from archgrad.report.curves import check_picture, curve_of, save_figure

__all__ = ["PANELS", "draw_panels", "panels_of"]

PANELS: Mapping[str, tuple[str, ...]] = {
    "layer alignment": ("alignment", "sign_alignment"),
    "skip connections": ("skip_share", "skip_weight"),
    "entropy": ("entropy",),
    "movement of the mixture": ("movement",),
    "gradient of skip connections and convolutions": (
        "skip_gradient_first",
        "skip_gradient_last",
        "conv_gradient_first",
        "conv_gradient_last",
    ),
    "largest eigenvalue of the architecture's Hessian": ("alpha_eigenvalue",),
    "accuracy of the architecture in the benchmark": ("oracle_*",),
}
"""What is drawn together, by title; a star stands for anything."""

_COLUMNS = 2
_WIDTH, _HEIGHT = 10.0, 2.6


def panels_of(records: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, list[tuple[int, float]]]]:
    """Return (epoch, value) of each measure in each panel; what no record has is left out.

    >>> panels_of([{"epoch": 1, "entropy": 1.6}, {"epoch": 2, "entropy": 1.5}])
    {'entropy': {'entropy': [(1, 1.6), (2, 1.5)]}}
    """
    panels, known = {}, sorted({name for record in records for name in record})
    for title, patterns in PANELS.items():
        measures = [name for pattern in patterns for name in fnmatch.filter(known, pattern)]
        lines = {name: [(epoch, value) for epoch, value, _, _ in curve_of([records], name)] for name in measures}
        drawn = {name: line for name, line in lines.items() if line}
        if drawn:
            panels[title] = drawn
    return panels


def draw_panels(records: Sequence[Mapping[str, Any]], path: Path, since: int | None = None) -> None:
    """Draw what a run's records hold into a picture; ``since`` marks an epoch in every panel."""
    check_picture(path)
    panels = panels_of(records)
    rows = -(-max(len(panels), 1) // _COLUMNS)

    def fill(figure: Any) -> None:
        for number, (title, lines) in enumerate(panels.items(), start=1):
            axes = figure.add_subplot(rows, _COLUMNS, number)
            for name, line in lines.items():
                epochs, values = zip(*line, strict=True)
                axes.plot(epochs, values, label=name.replace("_", " "), marker="o" if len(line) < 3 else None)
            if since is not None:
                axes.axvline(since, color="black", linestyle=":", linewidth=1)
            axes.set_title(title, fontsize="medium")
            axes.set_xlabel("epoch")
            axes.grid(alpha=0.3)
            if len(lines) > 1:
                axes.legend(fontsize="small")

    save_figure(fill, path, (_WIDTH, _HEIGHT * rows))
