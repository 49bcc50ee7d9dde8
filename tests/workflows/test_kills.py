"""A run that was killed before any of its file operations ends as one that was never killed."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch

import archgrad as ag
from archgrad.errors import UserError
from archgrad.system.files import write_text
from archgrad.workflows import Training, TrainResult, fit_trainings
from archgrad.workflows.fit_plan import FitPlan
from tests.studies.in_process import InProcess
from tests.workflows.fake_fit import Machine, machine
from tests.workflows.killing import Killed, killed_before
from tests.workflows.small import assert_same_bits, trained
from tests.workflows.test_select import CELLS, FakedTraining

__all__ = ["machine"]


def files_of(home: Path) -> set[str]:
    return {str(path.relative_to(home)) for path in home.rglob("*")}


SMALL: dict[str, Any] = {"channels": 2, "cells": 1, "limit": 60, "batch_size": 30, "epochs": 1}


def content(path: Path) -> object:
    """Return the bytes of a file, or the digest of a checkpoint, which does not tell how it is packed."""
    return torch.load(path, weights_only=True)["digest"] if path.suffix == ".pt" else path.read_bytes()


@pytest.fixture
def assert_survives(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[Callable[[Path], object]], None]:
    """Kill a run before each of its file operations, resume it or begin it again, and compare all files."""
    home = tmp_path / "run"

    def contents() -> dict[str, object]:
        return {str(path.relative_to(home)): content(path) for path in home.rglob("*") if path.is_file()}

    def survives(begin: Callable[[Path], object]) -> None:
        with killed_before(10**9) as done:
            begin(home)
        whole = contents()
        for number in range(1, len(done) + 1):
            shutil.rmtree(home)
            with suppress(Killed), killed_before(number):
                begin(home)
            try:
                ag.resume(home)
            except UserError:  # it was not even begun, and begins in the same folder
                begin(home)
            assert contents() == whole, done[number - 1]

    monkeypatch.setattr(time, "perf_counter", lambda: 0.0)  # files tell how long it took
    return survives


def test_a_search_survives_a_kill_before_every_file_operation(assert_survives: Any) -> None:
    assert_survives(lambda home: ag.search("tiny_space:Tiny", "darts", "digits", out=home, **SMALL))


def test_a_study_survives_a_kill_before_every_file_operation(
    assert_survives: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("archgrad.studies.study.make_engine", lambda *given: InProcess())
    assert_survives(lambda home: ag.compare("darts", seeds=1, spaces="tiny_space:Tiny", out=home, **SMALL))


def test_a_selection_survives_a_kill_before_every_file_operation(
    assert_survives: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its trainings write only their first and last files; they have tests of their own."""

    def train(training: Training, *, data: Any, out: Path, resume: bool, **more: Any) -> TrainResult:
        if not resume:
            training.write(out, data, "training")
        write_text(out / "result.json", "")
        return FakedTraining()(training)

    monkeypatch.setattr("archgrad.workflows.select.run_training", train)
    assert_survives(lambda home: ag.select("nasbench201", CELLS[:2], "digits", seeds=1, out=home, **SMALL))


def test_a_fit_survives_a_kill_before_every_file_operation(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its parts are trainings that write only the files that it needs; they have tests of their own."""

    def train(training: Any, out: Path, resume: bool, **place: Any) -> TrainResult:
        if not resume:
            training.write(out, training.config.data, "training")
        for name in ("metrics.jsonl", "genotype.json"):
            (out / name).write_text("")
        return machine.run_training(training, out=out, **place)

    def fit(home: Path) -> Any:
        return ag.fit("digits", limit=60, plan=plan, out=home)

    monkeypatch.setattr(fit_trainings, "run_training", train)
    monkeypatch.setattr("archgrad.workflows.fit_report.measure_latency", lambda *args: 1e-3)
    plan = FitPlan(8, search_epochs=0, channels=2, cells=1, networks=2, variants=0, train_epochs=2)
    with killed_before(10**9) as done:
        whole = fit(tmp_path / "whole")
    assert len(done) > 30
    for number in range(1, len(done) + 1):
        home = tmp_path / str(number)
        with suppress(Killed), killed_before(number):
            fit(home)
        try:
            result = ag.resume(home)
        except UserError:  # it was not even begun, and begins in the same folder
            result = fit(home)
        assert result.candidate == whole.candidate
        assert files_of(home) == files_of(tmp_path / "whole"), done[number - 1]
        for path in home.rglob("*"):
            if path.is_file() and path.name not in ("fit.json", "report.html"):  # which tell the time that was spent
                assert path.read_bytes() == (tmp_path / "whole" / path.relative_to(home)).read_bytes(), path


@pytest.mark.parametrize("number", [1, 3, 5, 8, 12, 16, 20, 40])
def test_a_training_of_two_seeds_survives_kills(tmp_path: Path, number: int) -> None:
    options: dict[str, Any] = {"seeds": 2, "epochs": 1, "limit": 60}
    whole, home = trained(out=tmp_path / "whole", **options), tmp_path / "killed"
    with suppress(Killed), killed_before(number):
        trained(out=home, **options)
    try:
        result = ag.resume(home)
    except UserError:
        result = trained(out=home, **options)
    assert_same_bits(whole, result)
    assert files_of(home) == files_of(tmp_path / "whole")
