"""Curves of several runs, and what their figures say."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest

from archgrad.report import curve_of, draw_curves, draw_panels
from archgrad.report.curves import _student, axis_label, caption_of


def histories(runs: int, epochs: int = 4, measure: str = "loss") -> list[list[dict[str, float]]]:
    return [[{"epoch": epoch, measure: epoch + run / 10} for epoch in range(1, epochs + 1)] for run in range(runs)]


def test_mean_deviation_and_interval() -> None:
    (point,) = curve_of(histories(5, 1), "loss")
    assert (point.mean, point.least, point.greatest, point.runs) == (pytest.approx(1.2), 1.0, 1.4, 5)
    assert point.deviation == pytest.approx(0.158114, abs=1e-6)
    assert point.interval == pytest.approx(2.776 * 0.158114 / 5**0.5, rel=1e-4)
    assert curve_of(histories(1, 1), "loss")[0].interval is None


@pytest.mark.parametrize(("freedom", "value"), [(4, 2.776), (15, 2.131), (16, 2.120), (30, 2.042), (1000, 1.962)])
def test_students_quantile(freedom: int, value: float) -> None:
    assert _student(freedom) == pytest.approx(value, abs=1e-3)


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
