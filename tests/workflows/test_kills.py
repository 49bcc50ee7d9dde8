"""A run that was killed before any of its file operations ends as one that was never killed."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import archgrad as ag
from archgrad.errors import UserError
from archgrad.workflows import TrainResult, fit_steps
from archgrad.workflows.fit_plan import FitPlan
from tests.workflows.fake_fit import Machine, machine
from tests.workflows.killing import Killed, killed_before
from tests.workflows.small import assert_same_bits, trained

__all__ = ["machine"]


def files_of(home: Path) -> set[str]:
    return {str(path.relative_to(home)) for path in home.rglob("*")}


def test_a_fit_survives_a_kill_before_every_file_operation(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its parts are trainings that write only the files that it needs; they have tests of their own."""

    def train(training: Any, out: Path, **place: Any) -> TrainResult:
        out.mkdir(parents=True, exist_ok=True)
        for name in ("metrics.jsonl", "genotype.json", "training.json"):
            (out / name).write_text("")
        return machine.run_training(training, out=out, **place)

    def fit(home: Path) -> Any:
        return ag.fit("digits", limit=60, plan=plan, out=home)

    monkeypatch.setattr(fit_steps, "run_training", train)
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
