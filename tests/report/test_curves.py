"""Curves of several runs, and what their figures say."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import pytest

from archgrad.report import curve_of, draw_curves, draw_panels
from archgrad.report.curves import axis_label, caption_of


def histories(runs: int, epochs: int = 4, measure: str = "loss") -> list[list[dict[str, float]]]:
    return [[{"epoch": epoch, measure: epoch + run / 10} for epoch in range(1, epochs + 1)] for run in range(runs)]


def test_mean_deviation_and_interval() -> None:
    (point,) = curve_of(histories(5, 1), "loss")
    assert (point.mean, point.least, point.greatest, point.runs) == (pytest.approx(1.2), 1.0, 1.4, 5)
    assert point.deviation == pytest.approx(0.158114, abs=1e-6)
    assert point.interval == pytest.approx(2.776445 * 0.158114 / 5**0.5, rel=1e-4)
    assert curve_of(histories(1, 1), "loss")[0].interval is None


def test_the_caption_says_what_lines_and_bands_are() -> None:
    one, five, three = (curve_of(histories(runs), "loss") for runs in (1, 5, 3))
    assert caption_of({"a": one}) == "line: one run (n = 1)"
    assert caption_of({"a": five}) == "line: mean over seeds, band: ± one standard deviation (n = 5)"
    assert caption_of({"a": five, "b": three}).endswith("(n = 3 to 5)")


def test_measures_have_units() -> None:
    assert axis_label("entropy") == "entropy (nats)"
    assert axis_label("oracle_cifar10_test_200ep") == "accuracy in the table cifar10 test 200ep (%)"


def test_thirty_methods_are_told_apart_without_a_warning(tmp_path: Path) -> None:
    curves = {f"method-{number}": curve_of(histories(3), "loss") for number in range(30)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draw_curves(curves, "loss", tmp_path / "curves.svg")
    picture = (tmp_path / "curves.svg").read_text()
    lines = re.findall(
        r'<path [^>]*style="fill: none; (?:stroke-dasharray: [^"]*; )?stroke: #[^"]*stroke-width: 1.4[^"]*"', picture
    )
    assert len({re.sub(r'.*style="', "", line) for line in lines}) >= 30


def test_a_diagnosis_shows_the_maximum_of_entropy_and_skips_what_was_not_measured(tmp_path: Path) -> None:
    records = [{"epoch": 1, "entropy": 1.3, "entropy_max": 1.4, "genotype": None}, {"epoch": 2, "entropy": 1.0}]
    draw_panels(records, tmp_path / "panels.svg")
    assert (tmp_path / "panels.svg").read_text().count('id="axes_') == 1


def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Figures as they are laid out, in the place of files."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figures: list[Any] = []

    def keep(fill: Any, path: Path, size: tuple[float, float]) -> None:
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(figure)
        fill(figure)
        figure.canvas.draw()
        figures.append(figure)

    monkeypatch.setattr("archgrad.report.curves.save_figure", keep)
    return figures


def test_a_legend_of_long_labels_lies_whole_beside_the_axes(monkeypatch: pytest.MonkeyPatch) -> None:
    figures = drawn(monkeypatch)
    settings = ", ".join(f"weights.setting_{number}=0.025" for number in range(6))
    curves = {f"method-{number} ({settings})": curve_of(histories(2), "loss") for number in range(25)}
    draw_curves(curves, "loss", Path("curves.png"))
    (figure,) = figures
    legend, axes = figure.legends[0].get_window_extent(), figure.axes[0].get_window_extent()
    assert legend.x0 >= axes.x1
    assert legend.x1 <= figure.bbox.x1 + 1
    assert legend.y0 >= 0
    assert legend.y1 <= figure.bbox.y1 + 1


def test_the_band_of_an_accuracy_stays_between_0_and_100(monkeypatch: pytest.MonkeyPatch) -> None:
    figures = drawn(monkeypatch)
    runs = [[{"epoch": 1, "heldout_accuracy": value}, {"epoch": 2, "heldout_accuracy": value}] for value in (2.0, 98.0)]
    draw_curves({"a": curve_of(runs, "heldout_accuracy")}, "heldout_accuracy", Path("curves.png"))
    heights = figures[0].axes[0].collections[0].get_paths()[0].vertices[:, 1]
    assert (heights.min(), heights.max()) == (0.0, 100.0)


def test_a_diagnosis_shows_the_losses_of_weights_and_architecture_and_begins_its_axes_at_zero(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    figures = drawn(monkeypatch)
    records = [{"epoch": n, "train_loss": 2.0, "arch_loss": 2.1, "entropy": 1.6, "entropy_max": 1.61} for n in (1, 2)]
    draw_panels(records, Path("panels.png"))
    loss, entropy = figures[0].axes
    assert [line.get_label() for line in loss.lines] == ["train loss", "arch loss"]
    assert entropy.get_ylim()[0] == 0
