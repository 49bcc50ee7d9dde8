"""Small studies on a real Slurm; `make test-slurm` starts one and runs this."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from archgrad.studies import Study
from tests.studies.stubbed import ALL_EPOCHS, coordinator, lines, plan_of, wait_for

COMPARE = [sys.executable, "-m", "archgrad", "compare"]
SIZES = ["--channels", "4", "--cells", "1", "--limit", "200", "--batch-size", "16"]


@pytest.fixture(autouse=True)
def _needs_slurm() -> None:
    assert "SLURM_CONF" in os.environ, "run this by `make test-slurm`"


def numbers(study: Path) -> dict[str, str]:
    """Return the numbers of a study's jobs."""
    return dict(json.loads((study / "slurm" / "jobs.json").read_text()))


def queue() -> list[str]:
    told = subprocess.run(
        ["squeue", "--noheader", "--array", "--format=%i"], capture_output=True, text=True, check=True
    )
    return told.stdout.split()


def submissions(study: Path) -> int:
    return len(list((study / "slurm").glob("*_submission.sh")))


def test_runs_go_on_where_a_cancelled_job_and_a_time_limit_have_stopped_them(tmp_path: Path) -> None:
    """Time limits are whole minutes; the signal that Slurm sends before the limit is sent by hand, which saves one."""
    study, epochs = tmp_path / "study", 25
    command = [*COMPARE, "--methods", "darts,gaea-simultaneous", "--seeds", "1", "--epochs", str(epochs), *SIZES]
    process = subprocess.Popen([*command, "--engine", "slurm", "-o", str(study)], stderr=subprocess.PIPE, text=True)
    homes = [study / "nasbench201-digits" / name for name in ("darts-seed0", "gaea-simultaneous-seed0")]
    for home, wanted in zip(homes, (["scancel"], ["scancel", "--signal=USR2"]), strict=True):
        metrics = home / "metrics.jsonl"
        wait_for(lambda metrics=metrics: metrics.exists() and len(metrics.read_text().splitlines()) >= 2)
        number = numbers(study)[f"nasbench201-digits/{home.name}"]
        assert number.partition("_")[2].isdecimal(), "the jobs are an array"
        subprocess.run([*wanted, number], check=True)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert [one.state for one in Study.load(study).status] == ["finished"] * 2
    for home in homes:
        log = (study / "logs" / "nasbench201-digits" / f"{home.name}.log").read_text()
        assert log.count("stopped after") == 1, "its first job left a checkpoint"
        told = [json.loads(line)["epoch"] for line in (home / "metrics.jsonl").read_text().splitlines()]
        assert told == list(range(1, epochs + 1))
    assert submissions(study) == 2, "the first array, and a job for the cancelled run"
    assert "Requeued job" in "".join(file.read_text() for file in (study / "slurm").glob("*_log.out"))


def test_a_new_coordinator_waits_for_the_jobs_of_one_that_was_killed(tmp_path: Path) -> None:
    study, plan = tmp_path / "study", plan_of("waits", seeds=2)
    killed = coordinator(study, plan, "slurm")
    wait_for(lambda: len(lines(study, "work.txt")) == 2)
    killed.process.kill()
    killed.end()
    before = numbers(study)
    assert sorted(queue()) == sorted(before.values()), "the jobs go on without it"
    (study / "go").touch()
    code, _, errors = coordinator(study, plan, "slurm").end()
    assert code == 0, errors
    assert numbers(study) == before
    assert submissions(study) == 1
    assert len(lines(study, "begun.txt")) == 2
    assert lines(study, "work.txt") == ALL_EPOCHS * 2


def test_an_interrupted_study_cancels_its_jobs_which_leave_checkpoints(tmp_path: Path) -> None:
    study, plan = tmp_path / "study", plan_of("waits", seeds=2)
    stopped = coordinator(study, plan, "slurm")
    wait_for(lambda: len(lines(study, "work.txt")) == 2)
    os.kill(stopped.process.pid or 0, signal.SIGTERM)
    _, _, errors = stopped.end()
    assert "continue with `archgrad compare" in errors
    assert lines(study, "stopped.txt") == ["stopped"] * 2
    assert queue() == []
    (study / "go").touch()
    code, _, errors = coordinator(study, plan, "slurm").end()
    assert code == 0, errors
    assert lines(study, "work.txt") == ALL_EPOCHS * 2


def test_a_cluster_that_does_not_answer_is_a_sentence(tmp_path: Path) -> None:
    nowhere = tmp_path / "slurm.conf"
    nowhere.write_text("ClusterName=none\nSlurmctldHost=localhost(127.0.0.1)\nSlurmctldPort=1\n")
    done = subprocess.run(
        [*COMPARE, "--methods", "darts", "--epochs", "1", *SIZES, "--engine", "slurm", "-o", str(tmp_path / "s")],
        env={**os.environ, "SLURM_CONF": str(nowhere)}, capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    assert done.returncode == 2
    assert "Slurm does not answer" in done.stderr
