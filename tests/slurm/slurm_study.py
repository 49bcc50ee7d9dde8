"""Small studies on a real Slurm; `make test-slurm` starts one and runs this."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from archgrad.studies import Study

COMPARE = [sys.executable, "-m", "archgrad", "compare"]
SIZES = ["--channels", "4", "--cells", "1", "--limit", "200", "--batch-size", "16"]


@pytest.fixture(autouse=True)
def _needs_slurm() -> None:
    assert "SLURM_CONF" in os.environ, "run this by `make test-slurm`"


def wait_for(condition, seconds: float = 120) -> None:  # type: ignore[no-untyped-def]
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "nothing happened"
        time.sleep(0.2)


def test_a_study_completes_although_a_job_is_cancelled_in_the_middle(tmp_path: Path) -> None:
    study = tmp_path / "study"
    command = [*COMPARE, "--methods", "darts,gaea-simultaneous", "--seeds", "2", "--epochs", "30", *SIZES]
    process = subprocess.Popen([*command, "--engine", "slurm", "-o", str(study)], stderr=subprocess.PIPE, text=True)
    metrics = study / "nasbench201-digits" / "darts-seed0" / "metrics.jsonl"
    wait_for(lambda: metrics.exists() and len(metrics.read_text().splitlines()) >= 2)
    number = json.loads((study / "slurm" / "jobs.json").read_text())["nasbench201-digits/darts-seed0"]
    subprocess.run(["scancel", number], check=True)
    _, errors = process.communicate(timeout=500)
    assert process.returncode == 0, errors
    done = Study.load(study)
    assert [one.state for one in done.status] == ["finished"] * 4
    assert re.search(r"_\d$", number), "the jobs are an array"
    log = (study / "logs" / "nasbench201-digits" / "darts-seed0.log").read_text()
    assert "stopped after" in log, "the cancelled job left a checkpoint"
    epochs = [json.loads(line)["epoch"] for line in metrics.read_text().splitlines()]
    assert epochs == list(range(1, 31))


def test_a_job_goes_on_in_a_new_one_after_its_time_limit(tmp_path: Path) -> None:
    """Slurm's time limits are whole minutes; the signal before the limit is sent by hand, which saves one."""
    study = tmp_path / "study"
    command = [*COMPARE, "--methods", "darts", "--seeds", "1", "--epochs", "20", *SIZES, "--minutes", "5"]
    process = subprocess.Popen([*command, "--engine", "slurm", "-o", str(study)], stderr=subprocess.PIPE, text=True)
    metrics = study / "nasbench201-digits" / "darts-seed0" / "metrics.jsonl"
    wait_for(lambda: metrics.exists() and len(metrics.read_text().splitlines()) >= 2)
    number = json.loads((study / "slurm" / "jobs.json").read_text())["nasbench201-digits/darts-seed0"]
    subprocess.run(["scancel", "--signal=USR2", number], check=True)
    _, errors = process.communicate(timeout=500)
    assert process.returncode == 0, errors
    assert [one.state for one in Study.load(study).status] == ["finished"]
    said = "".join(file.read_text() for file in (study / "slurm").glob("*_log.err"))
    assert "Requeued job" in said


def test_a_cluster_that_does_not_answer_is_a_sentence(tmp_path: Path) -> None:
    nowhere = tmp_path / "slurm.conf"
    nowhere.write_text("ClusterName=none\nSlurmctldHost=localhost(127.0.0.1)\nSlurmctldPort=1\n")
    done = subprocess.run(
        [*COMPARE, "--methods", "darts", "--epochs", "1", *SIZES, "--engine", "slurm", "-o", str(tmp_path / "s")],
        env={**os.environ, "SLURM_CONF": str(nowhere)}, capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    assert done.returncode == 2
    assert "Slurm does not answer" in done.stderr
