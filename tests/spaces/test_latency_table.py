"""Latencies of cells: read from a file, and fitted by a sum over edges."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from latencies import additive, chosen, crossed, write_latencies
from scipy.stats import rankdata

from archgrad.errors import UserError
from archgrad.spaces import DARTS, NASBench201
from archgrad.spaces.choice_costs import selected_choices
from archgrad.spaces.latency_table import LatencyTable, find_latencies, fit_latencies, open_latencies
from archgrad.spaces.nasbench201_cells import CELLS, OPERATIONS, codes_by_name, genotype_of

NAMES = [*codes_by_name()]
REAL = Path(os.environ.get("ARCHGRAD_DATA") or "absent", "nasbench201", "latency.csv")


@pytest.fixture(scope="session")
def table(tmp_path_factory: pytest.TempPathFactory) -> LatencyTable:
    return open_latencies(write_latencies(tmp_path_factory.mktemp("latencies") / "own.csv"))


def plain_fit(names: list[str], times: list[float], operations: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Return times and predictions of numpy's least squares, with a column for every operation on every edge."""
    cells = [chosen(name) for name in names]
    rows = np.array([[1.0, *(float(one == kind) for one in cell for kind in operations)] for cell in cells])
    solution = np.linalg.lstsq(rows, np.array(times), rcond=None)[0]
    return np.array(times), rows @ solution


@pytest.mark.parametrize("exclude", [(), ("none",)])
def test_the_fit_is_that_of_numpy(table: LatencyTable, exclude: tuple[str, ...]) -> None:
    space = NASBench201(exclude=exclude)
    kept = [name for n, name in enumerate(NAMES) if n % 100 and not set(exclude) & set(chosen(name))]
    times, wanted = plain_fit(kept, [crossed(name) for name in kept], tuple(set(OPERATIONS) - set(exclude)))
    fit = fit_latencies(space, table.columns["crossed"])
    found = [
        1000 * fit.costs.of(selected_choices(space.blocks, genotype_of(codes_by_name()[name]))) for name in kept[::50]
    ]
    np.testing.assert_allclose(found, wanted[::50], rtol=1e-9)
    assert fit.cells == len(kept)
    assert fit.r2 == pytest.approx(1 - ((times - wanted) ** 2).sum() / ((times - times.mean()) ** 2).sum(), abs=1e-9)
    ranks = np.corrcoef(rankdata(times), rankdata(wanted.round(9)))[0, 1]
    assert fit.rank_correlation == pytest.approx(ranks, abs=1e-4)
    assert 0.9 < fit.r2 < 0.9999


def test_a_sum_is_fitted_to_the_digit(table: LatencyTable) -> None:
    fit = fit_latencies(NASBench201(), table.columns["sum"])
    assert fit.r2 == pytest.approx(1, abs=1e-12)
    assert fit.costs.fixed == pytest.approx(0.003)  # all edges are `none`
    last = [2.0 * 1.5e-3 if name == "nor_conv_1x1" else None for name in OPERATIONS]
    assert fit.costs.choices["cell"][5, last.index(0.003)].item() == pytest.approx(0.003)


def test_the_expected_latency_has_the_gradient_of_finite_differences(table: LatencyTable) -> None:
    costs = fit_latencies(NASBench201(), table.columns["crossed"]).costs
    drawn = torch.Generator().manual_seed(0)
    alpha = torch.randn(6, 5, dtype=torch.float64, generator=drawn, requires_grad=True)
    assert torch.autograd.gradcheck(lambda value: costs.expected({"cell": value.softmax(-1)}), [alpha])
    (slope,) = torch.autograd.grad(costs.expected({"cell": alpha.softmax(-1)}), [alpha])
    step = torch.zeros(6, 5, dtype=torch.float64)
    step[3, 2] = 1e-5
    up, down = (costs.expected({"cell": (alpha + sign * step).softmax(-1)}).item() for sign in (1, -1))
    assert slope[3, 2].item() == pytest.approx((up - down) / 2e-5, rel=1e-7)


def test_values_are_found_and_zero_is_missing(table: LatencyTable) -> None:
    assert table.devices == ("sum", "crossed")
    assert table.milliseconds(NAMES[7], "sum") == additive(NAMES[7])
    assert table.milliseconds(genotype_of(7), "crossed") == crossed(NAMES[7])
    assert table.milliseconds(NAMES[300], "crossed") is None
    with pytest.raises(UserError, match="unknown device 'crossd'; did you mean 'crossed'"):
        table.milliseconds(NAMES[7], "crossd")
    with pytest.raises(UserError, match="has several devices; name one of sum, crossed"):
        table.device(None)


def test_a_table_of_few_cells_is_fitted_where_they_determine_all(tmp_path: Path) -> None:
    few = open_latencies(write_latencies(tmp_path / "few.csv", NAMES[::61]))
    whole = fit_latencies(NASBench201(), few.columns["sum"])
    assert (whole.cells, round(whole.costs.fixed, 9)) == (len(NAMES[::61]), 0.003)
    short = open_latencies(write_latencies(tmp_path / "short.csv", NAMES[:20]))
    with pytest.raises(UserError, match="the latencies of 20 cells do not determine"):
        fit_latencies(NASBench201(), short.columns["sum"])


def test_other_spaces_have_no_table(table: LatencyTable) -> None:
    with pytest.raises(UserError, match="has cells of NAS-Bench-201, and the space is 'darts'"):
        fit_latencies(DARTS(), table.columns["sum"])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("index,arch\n", "no column of numbers"),
        ("cell,here\n", "no column arch"),
        (f"arch,here\n{NAMES[0]},1\n{NAMES[0]},1\n", r"line 3: .* appears twice; write one line"),
        ("arch,here\n|none~0|,1\n", "is not a NAS-Bench-201 cell"),
        (f"arch,here\n{NAMES[0]},fast\n", "line 2: 'fast' is not a latency; write a number from 0 up"),
        (f"arch,here\n{NAMES[0]},-1\n", "is not a latency"),
        (f"arch,here\n{NAMES[0]},inf\n", "is not a latency"),
        ("arch,here\n\udcff", "is no CSV file in UTF-8"),
    ],
)
def test_broken_files_are_refused(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "broken.csv").write_text(text, encoding="utf-8", errors="surrogateescape")
    with pytest.raises(UserError, match=sentence):
        open_latencies(tmp_path / "broken.csv")


def test_a_table_is_found_by_the_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARCHGRAD_DATA", str(tmp_path))
    assert find_latencies() is None
    with pytest.raises(UserError, match=r"no latency table was found; put one at .*archgrad measure-latency -o FILE"):
        open_latencies()
    write_latencies(tmp_path / "nasbench201" / "latency.csv", NAMES[:3])
    assert open_latencies().devices == ("sum", "crossed")


@pytest.mark.skipif(not REAL.is_file(), reason="$ARCHGRAD_DATA/nasbench201/latency.csv is not there")
def test_the_published_table_has_27_devices_and_all_cells() -> None:
    table = open_latencies(REAL)
    assert len(table.devices) == 27
    assert all(column.isfinite().sum() == CELLS for column in table.columns.values())
    fit = fit_latencies(NASBench201(exclude=("none",)), table.columns["raspi4"])
    assert (fit.cells, round(fit.r2, 4), round(fit.rank_correlation, 4)) == (4096, 0.9743, 0.9804)
