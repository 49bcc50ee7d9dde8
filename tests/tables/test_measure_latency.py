"""Tables of latencies that are measured here: the sample, the prediction, and a measurement that goes on."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from latencies import additive, chosen, crossed

from archgrad.errors import UserError
from archgrad.spaces import NASBench201
from archgrad.spaces.latency_table import design_of, open_latencies
from archgrad.spaces.nasbench201_cells import CELLS, OPERATIONS, codes_by_name
from archgrad.tables.nasbench201 import measure_latency
from archgrad.tables.nasbench201.measure_latency import Setting, measure_table, sample_of_cells

NAMES = [*codes_by_name()]
SETTING = Setting(NASBench201(channels=2, cells_per_stage=1), image_size=8)


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The codes of the cells that are timed, which takes no time."""
    codes: list[int] = []

    def seconds(code: int, setting: Setting) -> float:
        codes.append(code)
        return additive(NAMES[code]) / 1000

    monkeypatch.setattr(measure_latency, "_seconds", seconds)
    return codes


def test_every_five_cells_have_every_operation_on_every_edge() -> None:
    codes = sample_of_cells(103)
    assert len(set(codes)) == 103
    for start in range(0, 100, 5):
        five = [chosen(NAMES[code]) for code in codes[start : start + 5]]
        assert all(sorted(column) == sorted(OPERATIONS) for column in zip(*five, strict=True))
    design, _ = design_of(NASBench201().blocks[0])
    for count in (30, 50, 100):
        assert torch.linalg.matrix_rank(design[sample_of_cells(count)]) == 25


def test_a_sample_of_a_sum_predicts_all_cells(tmp_path: Path, timed: list[int]) -> None:
    told: list[tuple[int, int]] = []
    found = measure_table(tmp_path / "own.csv", SETTING, "pc", 40, lambda *one: told.append(one))
    assert (found.fit.cells, told[0], told[-1]) == (40, (0, 40), (40, 40))
    assert found.left_out_r2 == pytest.approx(1)
    rows = list(csv.DictReader((tmp_path / "own.csv").read_text(encoding="utf-8").splitlines()))
    assert [row["arch"] for row in rows] == NAMES
    measured = [code for code, row in enumerate(rows) if row["source"] != "predicted"]
    assert measured == sorted(timed)
    assert {rows[code]["source"] for code in measured} == {str(SETTING)}
    np.testing.assert_allclose([float(row["pc"]) for row in rows], [additive(name) for name in NAMES], rtol=1e-4)
    assert open_latencies(tmp_path / "own.csv").devices == ("pc",)


def test_a_stopped_measurement_goes_on(tmp_path: Path, timed: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    whole, part = tmp_path / "whole.csv", tmp_path / "part.csv"
    measure_table(whole, SETTING, cells=40)

    def stop(done: int, total: int) -> None:
        if done == 33:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure_table(part, SETTING, cells=40, progress=stop)
    assert len(part.read_text().splitlines()) == 34
    timed.clear()
    measure_table(part, SETTING, cells=40)
    assert timed == sample_of_cells(40)[33:]
    assert part.read_bytes() == whole.read_bytes()
    timed.clear()
    measure_table(part, SETTING, cells=45)  # more cells replace predictions
    assert timed == sample_of_cells(45)[40:]


def test_another_table_is_not_overwritten(tmp_path: Path, timed: list[int]) -> None:
    path = tmp_path / "own.csv"
    measure_table(path, SETTING, cells=30)
    other = Setting(SETTING.space, image_size=16)
    for text in (path.read_text(), "index,arch,raspi4\n0,x,1\n"):
        path.write_text(text)
        with pytest.raises(
            UserError, match=r"was not made by this command for the device .here., measured.*give another file"
        ):
            measure_table(path, other, cells=30)
        assert path.read_text() == text


def test_the_left_out_residuals_are_those_of_refits(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = sample_of_cells(40)
    times = np.array([crossed(NAMES[code]) for code in codes])
    _, found = measure_latency._fitted(dict(zip(codes, times.tolist(), strict=True)))
    rows = design_of(NASBench201().blocks[0])[0][codes].numpy()
    missed = []
    for out in range(40):
        kept = [one for one in range(40) if one != out]
        missed.append(times[out] - rows[out] @ np.linalg.lstsq(rows[kept], times[kept], rcond=None)[0])
    assert found == pytest.approx(1 - np.square(missed).sum() / np.square(times - times.mean()).sum())


def test_the_command_times_real_networks(archgrad: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["archgrad.spaces.cost"], "_MOST", 1)
    size = ["--channels", 1, "--depth", 1, "--image-size", 8, "--cells", 30]
    code, out, err = archgrad("measure-latency", "-o", "table.csv", "--device", "pc", *size)
    assert code == 0, err
    assert "30 cells measured, the others predicted" in out
    assert "timing cells: 50 % of 30" in err
    assert all(open_latencies(tmp_path / "table.csv").columns["pc"][:CELLS] > 0)
    search = ["--channels", 2, "--cells", 1, "--limit", 80, "--batch-size", 20, "--epochs", 1, "--out", "run"]
    knobs = ["cost-penalty.metric=latency", "cost-penalty.table=table.csv", "cost-penalty.target=10s"]
    sets = [one for knob in knobs for one in ("--set", knob)]
    assert "ms on pc in its table" in archgrad.run("search", *search, "--regularizer", "+cost-penalty", *sets)


def test_all_cells_can_be_sampled() -> None:
    every = sample_of_cells(CELLS)
    assert sorted(every) == list(range(CELLS))
    assert [every[:count] == sample_of_cells(count) for count in (30, CELLS // 2 + 1)] == [True, True]


def test_a_device_is_not_named_like_another_column(tmp_path: Path, timed: list[int]) -> None:
    with pytest.raises(UserError, match=r"device is 'source', which is another column of the table; give the machine"):
        measure_table(tmp_path / "table.csv", SETTING, "source")
    assert not timed
