"""`archgrad search --voters` and `archgrad vote`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from archgrad.studies.folder import StudyFolder

TINY = ["--channels", 2, "--cells", 1, "--limit", 60, "--batch-size", 20, "--epochs", 1, "--voters", 2, "--seed", 5]
RUNS = [f"nasbench201-digits/voter-seed{seed}" for seed in (5, 6)]


def test_searches_vote_and_their_architecture_can_be_used(archgrad, engine):
    out = archgrad.run("search", *TINY, "--set", "space.exclude=none", "-o", "run")
    assert engine.submitted == RUNS
    assert "2 searches voted" in out
    assert "archgrad train run" in out
    assert "exclude" in Path("run", RUNS[0], "config.toml").read_text()
    genotype = next(line for line in out.splitlines() if line.startswith("|"))
    for command in (["cost", "run"], ["draw", "run", "-o", "cell.svg"]):
        archgrad.run(*command)
    out = archgrad.run("vote", *(Path("run") / run for run in RUNS), "-o", "voted", "--json")
    assert json.loads(out)["genotype"] == genotype
    assert Path("voted", "genotype.json").read_text() == Path("run", "genotype.json").read_text()
    assert "`archgrad compare run --no-run` reports it" in archgrad.error("inspect", "run")
    before = Path("run", RUNS[0], "config.toml").read_text()
    code, _, err = archgrad("vote", Path("run") / RUNS[1], "-o", Path("run") / RUNS[0])
    assert (code, Path("run", RUNS[0], "config.toml").read_text()) == (2, before)
    assert "which is there already" in err


def test_the_configuration_of_a_run_votes_with_other_seeds(archgrad, engine):
    archgrad.run("search", *TINY, "--set", "space.exclude=none", "-o", "run")
    archgrad.run("search", "--config", Path("run", RUNS[0], "config.toml"), "--voters", 2, "-o", "again")
    assert Path("again", "genotype.json").read_text() == Path("run", "genotype.json").read_text()


@pytest.mark.parametrize("command", ["resume", "compare"])
def test_a_stopped_vote_goes_on(command, archgrad, engine):
    archgrad.run("search", *TINY, "-o", "whole")
    shutil.copytree("whole", "run")
    shutil.rmtree(Path("run", RUNS[1]))
    Path("run", "genotype.json").unlink()
    engine.submitted.clear()
    out = archgrad.run(command, "run")
    assert engine.submitted == RUNS[1:]
    assert "2 searches voted" in out
    assert Path("run", "genotype.json").read_text() == Path("whole", "genotype.json").read_text()


def test_the_time_is_for_all_searches(archgrad, engine, monkeypatch):
    monkeypatch.setattr("archgrad.cli.vote.usable_cores", lambda: 2)
    archgrad.run(
        "search", "--voters", 4, "--time-limit", 0.1, "--channels", 2, "--cells", 1, "--limit", 60, "-o", "run"
    )
    assert StudyFolder(Path("run")).plan().common["time_limit"] == pytest.approx(0.05)


def test_an_estimate_is_of_one_search(archgrad):
    assert "--dry-run estimates one search" in archgrad.error("search", *TINY, "--dry-run")
