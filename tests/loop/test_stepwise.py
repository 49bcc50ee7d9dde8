"""A search by hand: step by step, epoch by epoch, saved in the middle and loaded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from same_bits import assert_same
from tiny_space import Tiny

import archgrad as ag
from archgrad import UserError
from archgrad.system.run_kind import read_kind

DATA = ag.data.digits(limit=60)
SPACE = Tiny(channels=2, cells_per_stage=1)
STAGES = ag.Progressive(cells=(None,), keep=(3, 2), skip_dropout=(0.0,), max_skips=None)
METHODS = {
    "gaea": ag.recipes.gaea(),
    "idarts": ag.recipes.idarts(),
    "stages": replace(ag.recipes.darts(), progressive=STAGES),
}
SETTINGS: dict[str, Any] = {"epochs": 2, "batch_size": 10, "seed": 3}


def run_of(method: str, **more: Any) -> ag.Search:
    return ag.Search(SPACE, METHODS[method], DATA, **{**SETTINGS, **more})


@pytest.mark.parametrize("method", METHODS)
def test_steps_by_hand_come_to_the_same_bits(method: str, tmp_path: Path) -> None:
    whole = ag.search(SPACE, METHODS[method], DATA, **SETTINGS)
    run = run_of(method)
    assert run.step() is None
    torch.manual_seed(7)  # what the caller draws between two steps changes nothing
    saved = run.save(tmp_path / "run")
    assert read_kind(saved) == "search"
    assert run.epoch()["epoch"] == 1
    assert run.genotype == run.state.genotype
    assert {name: value.shape[0] for name, value in run.mixture.items()} == {"cell": 3}
    run.step()
    assert run.save(tmp_path / "run") == saved  # the same search, a later state
    assert_same(run.result(), whole)
    assert [record["epoch"] for record in run.history] == list(range(1, len(whole.history) + 1))
    with pytest.raises(UserError, match=r"complete.*result\(\)"):
        run.step()

    loaded = ag.Search.load(saved, space=SPACE, method=METHODS[method], data=DATA)
    assert len(loaded.history) == 1
    assert [record["epoch"] for record in loaded] == list(range(2, len(whole.history) + 1))
    assert loaded.complete
    assert_same(loaded.result(), whole)
    assert_same(ag.resume(saved, space=SPACE, method=METHODS[method], data=DATA), whole)


def test_a_run_directory_is_released_when_a_search_is_closed(tmp_path: Path) -> None:
    with run_of("gaea", out=tmp_path) as run:
        run.epoch()
        with pytest.raises(UserError, match="another search is running"):
            ag.resume(tmp_path, space=SPACE, method=METHODS["gaea"], data=DATA)
    with pytest.raises(UserError, match="closed before its end"):
        run.step()
    assert len(ag.resume(tmp_path, space=SPACE, method=METHODS["gaea"], data=DATA).history) == 2


def test_an_error_in_a_step_closes_the_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_of("gaea", out=tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("archgrad.loop.run.Run.step", lambda self: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run.step()
    assert not ag.resume(tmp_path, space=SPACE, method=METHODS["gaea"], data=DATA).undecided


def test_sizes_that_nobody_gives_are_chosen_for_a_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("archgrad.loop.sizes._step_seconds", lambda *_: 1.0)
    run = ag.Search("nasbench201", "gaea", "digits", time_limit=1.0, out=tmp_path)
    assert run.experiment.space.channels == 8
    assert run.experiment.weights.epochs * run.experiment.steps < 60
    assert len(run.experiment.data) < 1797
    run.close()
    again = ag.Search("nasbench201", "gaea", "digits", time_limit=1.0, out=tmp_path, resume=True)
    assert again.experiment.identity.digest == run.experiment.identity.digest
    again.close()


def test_progress_is_shown_where_it_is_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    run_of("gaea").result()
    assert capsys.readouterr().err == ""
    run_of("gaea", progress=True).result()
    assert "epoch 2/2" in capsys.readouterr().err
