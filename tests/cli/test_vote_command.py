"""`archgrad search --voters` and `archgrad vote`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from archgrad.studies import study as study_module
from archgrad.studies.folder import StudyFolder
from tests.studies.in_process import InProcess

TINY = ["--channels", 2, "--cells", 1, "--limit", 60, "--batch-size", 20, "--epochs", 1, "--voters", 2, "--seed", 5]
RUNS = [f"nasbench201-digits/voter-seed{seed}" for seed in (5, 6)]


@pytest.fixture
def engine(monkeypatch) -> InProcess:
    """The engine of all commands of a test."""
    found = InProcess()
    monkeypatch.setattr(study_module, "make_engine", lambda name, threads, options: found)
    return found


def test_searches_vote_and_their_architecture_can_be_used(archgrad, engine):
    code, out, err = archgrad("search", *TINY, "--set", "space.exclude=none", "-o", "run")
    assert code == 0, err
    assert engine.submitted == RUNS
    assert "2 searches voted" in out
    assert "archgrad train run" in out
    assert "exclude" in Path("run", RUNS[0], "config.toml").read_text()
    genotype = next(line for line in out.splitlines() if line.startswith("|"))
    for command in (["cost", "run"], ["draw", "run", "-o", "cell.svg"]):
        code, _, err = archgrad(*command)
        assert code == 0, err
    code, out, err = archgrad("vote", *(Path("run") / run for run in RUNS), "-o", "voted", "--json")
    assert code == 0, err
    assert json.loads(out)["genotype"] == genotype
    assert Path("voted", "genotype.json").read_text() == Path("run", "genotype.json").read_text()
    code, _, err = archgrad("inspect", "run")
    assert (code, "`archgrad compare run --no-run` reports it" in err) == (2, True)
    before = Path("run", RUNS[0], "config.toml").read_text()
    code, _, err = archgrad("vote", Path("run") / RUNS[1], "-o", Path("run") / RUNS[0])
    assert (code, Path("run", RUNS[0], "config.toml").read_text()) == (2, before)
    assert "which is there already" in err


def test_the_configuration_of_a_run_votes_with_other_seeds(archgrad, engine):
    assert archgrad("search", *TINY, "--set", "space.exclude=none", "-o", "run")[0] == 0
    code, _, err = archgrad("search", "--config", Path("run", RUNS[0], "config.toml"), "--voters", 2, "-o", "again")
    assert code == 0, err
    assert Path("again", "genotype.json").read_text() == Path("run", "genotype.json").read_text()


@pytest.mark.parametrize("command", ["resume", "compare"])
def test_a_stopped_vote_goes_on(command, archgrad, engine):
    assert archgrad("search", *TINY, "-o", "whole")[0] == 0
    shutil.copytree("whole", "run")
    shutil.rmtree(Path("run", RUNS[1]))
    Path("run", "genotype.json").unlink()
    engine.submitted.clear()
    code, out, err = archgrad(command, "run")
    assert (code, engine.submitted) == (0, RUNS[1:]), err
    assert "2 searches voted" in out
    assert Path("run", "genotype.json").read_text() == Path("whole", "genotype.json").read_text()


def test_the_time_is_for_all_searches(archgrad, engine, monkeypatch):
    monkeypatch.setattr("archgrad.cli.vote.usable_cores", lambda: 2)
    code, _, err = archgrad(
        "search", "--voters", 4, "--time-limit", 0.1, "--channels", 2, "--cells", 1, "--limit", 60, "-o", "run"
    )
    assert code == 0, err
    assert StudyFolder(Path("run")).plan().common["time_limit"] == pytest.approx(0.05)


def test_an_estimate_is_of_one_search(archgrad):
    code, _, err = archgrad("search", *TINY, "--dry-run")
    assert (code, "--dry-run estimates one search" in err) == (2, True)
