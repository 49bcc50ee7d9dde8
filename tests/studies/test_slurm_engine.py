"""What the engine Slurm does where there is no Slurm; `make test-slurm` tries a real one."""

from __future__ import annotations

import os
import signal
import sys
from functools import partial
from pathlib import Path

import pytest
from forked import Forked

from archgrad import UserError
from archgrad.studies.engines import Job, make_engine
from archgrad.studies.engines import slurm as engine
from archgrad.studies.engines.slurm import SlurmRun
from tests.studies.stubbed import ALL_EPOCHS, lines, stub_command, wait_for


def _computed_until_a_signal(job: Job) -> None:
    """Do what submitit does: queue the job again in the handler of a signal, and end."""

    def handle(number: int, frame: object) -> None:
        run.checkpoint()
        sys.exit(7)

    run = SlurmRun(job, stub_command(job)[1:])
    signal.signal(signal.SIGUSR2, handle)
    run()


def test_a_run_writes_its_checkpoint_in_the_handler_of_the_signal_before_the_time_limit(tmp_path: Path) -> None:
    """The handler interrupts the code that waits for the same process, and must not wait for that code."""
    job = Job("b/waits-seed0", tmp_path / "study")
    first = Forked(partial(_computed_until_a_signal, job), tmp_path, {}, at_once=True)
    wait_for(lambda: lines(job.study, "work.txt") == ["1"])
    os.kill(first.process.pid or 0, signal.SIGUSR2)
    code, _, errors = first.end()
    assert code == 7, errors
    assert lines(job.study, "stopped.txt") == ["stopped"]
    (job.study / "go").touch()
    again = SlurmRun(job, stub_command(job)[1:])
    assert again() == 0
    assert lines(job.study, "work.txt") == ALL_EPOCHS
    assert (job.study / "logs" / "b" / "waits-seed0.code").read_text() == "0"


def test_a_slurm_that_is_silent_for_a_while_gets_every_job_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[set[str] | None] = [None, set(), None, {"1_0", "1_1"}, None, {"1_1"}]
    submitted: list[str] = []

    def submit(self: object, jobs: list[Job]) -> dict[str, str]:
        submitted.extend(job.name for job in jobs)
        return {job.name: f"1_{place}" for place, job in enumerate(jobs)}

    monkeypatch.setattr(engine, "_check_slurm", lambda: None)
    monkeypatch.setattr(engine, "_queued", lambda: answers.pop(0))
    monkeypatch.setattr(engine.SlurmEngine, "_submit_new", submit)
    slurm = engine.SlurmEngine()
    slurm.submit([Job("b/x-seed0", tmp_path), Job("b/x-seed1", tmp_path)])
    told = [slurm.wait(0) for _ in range(6)]
    assert submitted == ["b/x-seed0", "b/x-seed1"]
    assert told[:5] == [[]] * 5
    assert [(one.job.name, one.reason) for one in told[5]] == [
        ("b/x-seed0", "Slurm ended its job 1_0 before the run was finished")
    ]


def test_a_machine_without_slurm_is_a_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match=r"no Slurm on this machine .* login node"):
        make_engine("slurm", 1, {})


def test_a_time_limit_without_time_to_compute_is_a_sentence() -> None:
    with pytest.raises(UserError, match=r"--minutes is 4, .* give 5 or more"):
        make_engine("slurm", 1, {"minutes": 4})
