"""Every timing script runs at its smallest size. How fast anything is, is not for tests."""

from __future__ import annotations

import importlib
import json
from functools import partial
from pathlib import Path

import pytest
import torch
from forked import Forked, context

from benchmarks import engines, hypergradients, methods, pages
from benchmarks.common import Case, growth
from benchmarks.hypergradients import ESTIMATORS, KINDS
from benchmarks.supernets import convolutions, inputs
from tests.studies.ray_nodes import ray_folder

SCRIPTS = {
    "supernets": {"fused_ms", "speed_up"},
    "processes": {"ms", "cpu_ms", "collectives", "speedup"},
    "hypergradients": {"estimator", "cost", "cosine"},
    "methods": {"method", "cost"},
    "regularizers": {"regularizer", "cost"},
    "diagnostics": {"eigenvalue_ms", "share"},
    "memory": {"plain_ms", "ratio_tensors_mb"},
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_prints_a_table_and_stores_it(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rows.json"
    forking = context()
    monkeypatch.setattr("multiprocessing.get_context", lambda kind: forking)
    monkeypatch.setattr(
        hypergradients, "ESTIMATORS", {one: ESTIMATORS[one] for one in ("Unrolled", "TruncatedReverse T=1 keep=1")}
    )
    monkeypatch.setattr(methods, "RECIPES", ("gaea-simultaneous", "idarts", "p-darts"))
    importlib.import_module(f"benchmarks.{name}").main(["--tiny", "--space", "nasbench201", "--json", str(path)])
    rows = json.loads(path.read_text())["rows"]
    lines = capsys.readouterr().out.strip().splitlines()
    assert len(lines) == len(rows) + 1
    for row in rows:
        assert SCRIPTS[name] <= set(row)
        assert all(value > 0 for column, value in row.items() if column.endswith("_ms") and value is not None)


def test_the_script_of_pages_weighs_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rows.json"
    pages.main(["--runs", "1", "2", "--epochs", "2", "--no-browser", "--json", str(path)])
    assert [row["runs"] for row in json.loads(path.read_text())] == [1, 2]
    assert capsys.readouterr().out.count(" MB |") == 2


def test_the_script_of_engines_computes_studies(tmp_path: Path) -> None:
    """In a process of its own: Ray starts threads and changes signal handlers."""
    path = tmp_path / "rows.json"
    measure = partial(engines.main, ["--tiny", "--engines", "local,ray", "--json", str(path)])
    with ray_folder() as environment:
        code, _, errors = Forked(measure, tmp_path, environment, at_once=True).end()
    assert code == 0, errors
    rows = json.loads(path.read_text())["rows"]
    assert [row["engine"] for row in rows] == ["local", "ray"]
    assert all(row["study_s"] > 0 for row in rows)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_takes_every_kind_of_products(name: str) -> None:
    assert [ESTIMATORS[name](products=kind).products for kind in KINDS] == list(KINDS)  # type: ignore[attr-defined]


def test_every_convolution_is_timed() -> None:
    case, seen = Case("nasbench201", 2, 1, 8, 2), set()
    space = case.build()
    net, (images, _, mixture) = space.supernet(), inputs(space, case)
    step = convolutions(net, images, mixture)
    layers = {module for module in net.modules() if isinstance(module, torch.nn.Conv2d)}
    for layer in layers:
        layer.register_forward_hook(lambda module, *_: seen.add(module))
    step()
    assert seen == layers


def test_the_memory_of_a_step_is_measured() -> None:
    assert growth(lambda: torch.zeros(1000)) >= 0
