"""``archgrad plot``."""

from __future__ import annotations

from pathlib import Path

from archgrad.cli import options

__all__ = ["plot"]


def plot(
    folders: options.PlottedRuns,
    measure: options.Measure = None,
    out: options.CurveFile = Path("curves.svg"),
    as_json: options.AsJson = False,
) -> None:
    """Plot a measure over the epochs of runs: the mean of each method, and the standard deviation of its seeds."""
    from archgrad.cli.console import print_json, say
    from archgrad.cli.plot import curves_content, plot_runs, show_curves

    measure, curves = plot_runs(folders, measure, out)
    if as_json:
        print_json(curves_content(curves))
    else:
        say(f"{show_curves(curves, measure)}\n{out}")
