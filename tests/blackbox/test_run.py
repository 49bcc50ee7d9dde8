"""The entry to searches without gradients: what it takes, what it rejects, and the run directory."""

from __future__ import annotations

import json
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import torch
from known_table import install

import archgrad as ag
from archgrad.blackbox import ZeroCost, resume_blackbox, run_blackbox
from archgrad.config import read_run_config
from archgrad.config.resolve import space_of
from archgrad.errors import UserError
from archgrad.loop.folder import read_records
from archgrad.spaces import Genotype, NASBench201
from archgrad.system.run_kind import read_kind


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)


@pytest.mark.usefixtures("table")
def test_the_default_budget_is_the_published_one() -> None:
    result = run_blackbox("random-search")
    assert 11_700 < result.simulated_seconds <= 12_000
    assert "simulated" in result.source


@pytest.mark.usefixtures("table")
def test_settings_are_knobs_as_text_or_values() -> None:
    result = run_blackbox("regularized-evolution", queries=3, settings={"population": "2", "sample": 1})
    assert (result.search.population, result.search.sample) == (2, 1)
    with pytest.raises(UserError, match="unknown knob of blackbox"):
        run_blackbox("regularized-evolution", settings={"populaton": 2})


@pytest.mark.usefixtures("table")
def test_excluded_operations_are_never_queried() -> None:
    for name in ("random-search", "regularized-evolution", "reinforce", "tpe"):
        result = run_blackbox(name, NASBench201(exclude=("none", "skip_connect")), queries=30)
        assert all(
            not Genotype.parse(record["genotype"]).count(one)
            for record in result.history
            for one in ("none", "skip_connect")
        )


@pytest.mark.usefixtures("table")
def test_the_oracle_follows_the_best_cell_on_the_wanted_data() -> None:
    result = run_blackbox("random-search", queries=5, oracle="cifar10,cifar100")
    last = result.history[-1]
    assert last["oracle_cifar10_test_200ep"] == last["oracle_cifar100_test_200ep"] == last["best_cifar10_valid_12ep"]
    assert not [key for key in run_blackbox("random-search", queries=1, oracle="none").history[0] if "oracle" in key]


@pytest.mark.usefixtures("table")
def test_a_budget_without_one_training_is_a_sentence() -> None:
    with pytest.raises(UserError, match="5 simulated seconds ends before the first training; give more seconds"):
        run_blackbox("random-search", seconds=5.0)
    with pytest.raises(UserError, match="queries is 0"):
        run_blackbox("random-search", queries=0)


def test_what_cannot_be_searched_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ARCHGRAD_DATA", raising=False)
    with pytest.raises(UserError, match="unknown search without gradients 'random'"):
        run_blackbox("random")
    with pytest.raises(UserError, match="no table has short trainings of the space 'darts'"):
        run_blackbox("random-search", "darts")
    with pytest.raises(UserError, match=r"put it at \$ARCHGRAD_DATA/nasbench201/accuracy.csv"):
        run_blackbox("random-search")
    with pytest.raises(
        UserError,
        match="no table has short trainings of the space 'nasbench201' on 'digits'; search nasbench201 on cifar10",
    ):
        run_blackbox("random-search", data="digits")
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(UserError, match=r"pip install 'archgrad\[blackbox\]'"):
        run_blackbox("tpe")


@pytest.mark.usefixtures("table")
def test_a_run_directory_reads_like_that_of_a_search_by_gradients(tmp_path: Path) -> None:
    result = run_blackbox("regularized-evolution", NASBench201(exclude=("none",)), seed=7, queries=12)
    folder = result.save(tmp_path / "run")
    assert sorted(path.name for path in folder.iterdir()) == [
        "config.toml", "genotype.json", "metrics.jsonl", "run.json", "summary.json",
    ]  # fmt: skip
    assert read_records(folder) == list(result.history)
    assert Genotype.parse((folder / "genotype.json").read_text(encoding="utf-8")) == result.genotype
    config = read_run_config(folder)
    assert (config.method, config.seed, config.epochs) == ("regularized-evolution", 7, 12)
    assert config.settings["archgrad.blackbox:RegularizedEvolution.population"] == 10
    assert config.settings["archgrad.blackbox:Budget.queries"] == 12
    assert space_of(config) == result.space
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    assert summary["genotype"] == str(result.genotype)
    assert summary["last_epoch"] == result.history[-1]
    assert (summary["queries"], summary["simulated_seconds"]) == (12, result.simulated_seconds)
    with pytest.raises(UserError, match="is not empty"):
        result.save(folder)
    assert read_kind(folder) == "blackbox"
    again = resume_blackbox(folder)
    same = [one.name for one in fields(result) if one.name != "seconds"]
    assert [getattr(again, name) for name in same] == [getattr(result, name) for name in same]
    (folder / "summary.json").unlink()
    with pytest.raises(UserError, match="not written to its end; delete it"):
        resume_blackbox(folder)


@pytest.mark.usefixtures("table")
def test_plot_and_inspect_read_it(archgrad, tmp_path: Path) -> None:
    for seed in (0, 1):
        run_blackbox("random-search", seed=seed, queries=4).save(tmp_path / f"random-{seed}")
    code, out, err = archgrad("plot", "random-0", "random-1", "-o", "curves.svg")
    assert (code, "random-search: oracle_cifar10_test_200ep" in out, err) == (0, True, "")
    assert "searched without gradients" in archgrad.run("inspect", "random-0")


def test_the_command_lists_them(archgrad) -> None:
    out = archgrad.run("list", "blackbox", "regularized-evolution")
    assert ["regularized-evolution.population", "10"] in [line.split()[:2] for line in out.splitlines()]


def test_images_of_a_user_are_searched_and_named(tmp_path: Path) -> None:
    space, images, targets = (
        NASBench201(channels=2, cells_per_stage=1),
        np.zeros((20, 8, 8), "uint8"),
        np.arange(20) % 2,
    )
    own = ag.data.from_dataset((torch.zeros(20, 1, 8, 8, dtype=torch.uint8), torch.arange(20) % 2))
    assert run_blackbox(ZeroCost("params", samples=2), space, own).data == own.name
    np.savez(tmp_path / "a.npz", x=images, y=targets)
    result = run_blackbox(ZeroCost("params", samples=2), space, ag.data.load(f"npz:{tmp_path / 'a.npz'}"))
    assert result.data == f"npz:{tmp_path / 'a.npz'}"
