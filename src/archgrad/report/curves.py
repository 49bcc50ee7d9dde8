"""Curves over the epochs of several runs: one line for each group, with the range of its seeds around it."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from statistics import mean
from typing import Any

from archgrad.errors import UserError, unknown
from archgrad.files import write_bytes

__all__ = ["PICTURES", "Curve", "can_draw", "check_picture", "curve_of", "draw_curves", "save_figure"]

PICTURES = (".svg", ".png", ".pdf")

_UNDATED = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}

Curve = list[tuple[int, float, float, float]]
"""Epoch, mean, least and greatest value of a group's runs; only epochs that all of them have."""


def curve_of(histories: Sequence[Sequence[Mapping[str, Any]]], measure: str) -> Curve:
    """Join the records of several runs into one curve.

    >>> curve_of([[{"epoch": 1, "loss": 3.0}], [{"epoch": 1, "loss": 1.0}, {"epoch": 2, "loss": 0.5}]], "loss")
    [(1, 2.0, 1.0, 3.0)]
    """
    runs = [{record["epoch"]: record[measure] for record in run if _has(record, measure)} for run in histories]
    shared = sorted(set.intersection(*(set(run) for run in runs))) if runs else []
    values = [(epoch, [run[epoch] for run in runs]) for epoch in shared]
    return [(epoch, mean(found), min(found), max(found)) for epoch, found in values]


def _has(record: Mapping[str, Any], measure: str) -> bool:
    value = record.get(measure)
    return isinstance(value, int | float) and not isinstance(value, bool)


def draw_curves(curves: Mapping[str, Curve], measure: str, path: Path) -> None:
    """Draw labelled curves into a picture."""
    check_picture(path)

    def fill(figure: Any) -> None:
        axes = figure.add_subplot()
        for label, curve in curves.items():
            epochs, means, least, greatest = zip(*curve, strict=True)
            (line,) = axes.plot(epochs, means, label=label, marker="o" if len(epochs) == 1 else None)
            axes.fill_between(epochs, least, greatest, color=line.get_color(), alpha=0.15, linewidth=0)
        axes.set_xlabel("epoch")
        axes.set_ylabel(measure.replace("_", " "))
        axes.grid(alpha=0.3)
        axes.legend()

    save_figure(fill, path, (8, 4.8))


def check_picture(path: Path) -> None:
    """Raise a UserError if a picture of this name cannot be drawn here."""
    suffix = path.suffix.lower()
    if suffix not in PICTURES:
        raise unknown("picture format", suffix or path.name, PICTURES)
    if not can_draw():
        raise UserError("curves need the package matplotlib; install it with `pip install 'archgrad[plot]'`.")


def can_draw() -> bool:
    """Tell whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def save_figure(fill: Callable[[Any], None], path: Path, size: tuple[float, float]) -> None:
    """Have a figure of this size, in inches, filled, and write it into a file."""
    try:
        write_bytes(path, _rendered(fill, size, path.suffix.lower().removeprefix(".")))
    except OSError as error:
        raise UserError(f"{path} cannot be written ({error.strerror or error}); choose another file.") from error


def _rendered(fill: Callable[[Any], None], size: tuple[float, float], picture: str) -> bytes:
    """Render without a display and without a date, so that the same curves are the same bytes."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    fill(figure)
    file = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "archgrad", "svg.fonttype": "path"}):
        figure.savefig(file, format=picture, dpi=150, metadata=_UNDATED.get(picture))
    return file.getvalue()
