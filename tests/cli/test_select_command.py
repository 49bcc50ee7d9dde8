"""``archgrad select``."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.workflows.small_fit import Killer

CELL = "|nor_conv_3x3~0|+|skip_connect~0|none~1|+|none~0|nor_conv_1x1~1|skip_connect~2|"
OTHER = "|nor_conv_1x1~0|+|skip_connect~0|none~1|+|none~0|nor_conv_1x1~1|skip_connect~2|"
TRAINING = ("--epochs", 2, "--channels", 2, "--cells", 1, "--limit", 60, "--threads", 1, "--seeds", 1)


@pytest.fixture(scope="module")
def searched(tmp_path_factory) -> Path:
    """The run directory of a search."""
    import archgrad as ag

    home = tmp_path_factory.mktemp("searched") / "run"
    ag.search(
        ag.spaces.NASBench201(channels=2, cells_per_stage=1), "gaea-simultaneous", "digits", epochs=1, limit=60,
        batch_size=24, out=home,
    )  # fmt: skip
    return home


def test_a_search_is_repeated_and_its_cost_is_told(archgrad, searched, tmp_path):
    run = shutil.copytree(searched, tmp_path / "run")
    out = archgrad.run("select", run, "--searches", 2, *TRAINING, "--out", "new")
    again = tmp_path / "run-again-seed1"
    seconds = [json.loads((one / "summary.json").read_text())["seconds"] for one in (run, again)]
    assert json.loads((tmp_path / "new" / "selection.json").read_text())["search_seconds"] == {
        str(run): seconds[0], str(again): seconds[1],
    }  # fmt: skip
    assert f"searches: {sum(seconds):.0f} seconds ({seconds[0]:.0f}, {seconds[1]:.0f})" in out
    assert "searching with seed 1" in out
    assert "selected: |" in out
    before = (again / "metrics.jsonl").read_bytes()
    out = archgrad.run("select", run, "--searches", 2, *TRAINING, "--epochs", 1)
    assert "searching" not in out  # it is there already
    assert (again / "metrics.jsonl").read_bytes() == before


def test_a_protocol_repeats_the_search_and_says_what_differs(archgrad, searched, tmp_path):
    run = shutil.copytree(searched, tmp_path / "run")
    err = archgrad.error("select", run, "--protocol", "gaea", *TRAINING)
    assert "but the data has none; give them (--test)" in " ".join(err.split())
    assert [path.name for path in tmp_path.iterdir()] == ["run"]  # told before any search
    line = ("--protocol", "gaea", "--test", unseen(tmp_path), *TRAINING, "--out", "new")
    out = archgrad.run("select", run, *line)
    assert all((tmp_path / f"run-again-seed{seed}").is_dir() for seed in (1, 2, 3, 4))
    assert "protocol gaea: each of 5 searches trained once in full, and the best one with 10 fresh seeds" in out
    assert "not the published protocol (seeds: 1 instead of 10, preset: quick instead of one of a paper)\n" in out
    assert "held-out images chose the best one" in out
    assert json.loads((tmp_path / "new" / "candidates.json").read_text())["searches"] == 5
    config = (tmp_path / "new" / "final" / "config.toml").read_text()
    assert "held_out = 0\n" in config or "held_out = 0.0\n" in config
    content = json.loads((tmp_path / "new" / "selection.json").read_text())
    assert "heldout" not in content["final"]
    again = json.loads(archgrad.run("resume", "new", "--json"))
    assert [again[name] for name in ("protocol", "departures")] == [
        "gaea",
        ["seeds: 1 instead of 10", "preset: quick instead of one of a paper"],
    ]
    assert again["final"]["test"] == content["final"]["test"]


def test_amended_tells_lowest_and_highest(archgrad, tmp_path):
    line = ("--protocol", "amended", "--test", unseen(tmp_path), *TRAINING, "--seeds", 2)
    out = archgrad.run("select", CELL, OTHER, *line)
    assert "not the published protocol (searches: 2 instead of 5, seeds: 2 instead of 3, preset: quick" in out
    (told,) = [line for line in out.splitlines() if line.startswith("test accuracy") and "highest" in line]
    assert told.count("±") == 4
    assert "last training" not in out


def unseen(folder: Path) -> str:
    """Return the name of test images like the digits."""
    import archgrad as ag

    digits = ag.data.digits(limit=40)
    np.savez(folder / "tests.npz", x=digits.images.numpy()[:, 0], y=digits.targets.numpy())
    return f"npz:{folder / 'tests.npz'}"


def test_another_search_in_the_place_of_the_repeated_one(archgrad, searched, tmp_path):
    run = shutil.copytree(searched, tmp_path / "run")
    again = shutil.copytree(searched, tmp_path / "run-again-seed1")
    err = archgrad.error("select", run, "--searches", 2, *TRAINING)
    assert "holds another search than --searches would repeat; rename or remove it" in " ".join(err.split())
    assert (again / "config.toml").read_bytes() == (run / "config.toml").read_bytes()


def test_a_killed_selection_is_resumed(archgrad, tmp_path, monkeypatch):
    killer = Killer("round 1 of 1: architecture 2")
    monkeypatch.setattr("archgrad.cli.select.SearchProgress", lambda *args, **more: killer)
    monkeypatch.setattr("archgrad.cli.select.say", lambda text, console: killer.tell(text))
    monkeypatch.setattr(Killer, "close", lambda self: None, raising=False)
    code, _, err = archgrad("select", CELL, OTHER, *TRAINING, "--out", "run")
    assert (code, err.rpartition("; ")[2]) == (130, "continue with `archgrad resume run`.\n")
    killer.part = "nothing"
    out = archgrad.run("resume", "run", "--json")
    whole = json.loads(archgrad.run("select", CELL, OTHER, *TRAINING, "--out", "whole", "--json"))
    resumed = json.loads(out)
    assert [one["heldout"] for one in resumed["final"]["seeds"]] == [one["heldout"] for one in whole["final"]["seeds"]]
    assert resumed["search_seconds"] == {}
    from archgrad.models import Model

    weights = [Model.load(f"{name}/final").network.state_dict() for name in ("run", "whole")]
    assert all(torch.equal(value, weights[1][name]) for name, value in weights[0].items())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((CELL, "darts-v2"), "select among architectures of one space"),
        ((CELL, "--searches", 2), "--searches repeats a search, but"),
        (("nothing",), "unknown well-known cell 'nothing'"),
        ((CELL, "--out", "full"), "full is not empty; choose a new folder"),
        ((CELL, "--seeds", 0), "Invalid value for '--seeds'"),
    ],
)
def test_mistakes_leave_nothing_behind(archgrad, tmp_path, arguments, message):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine")
    err = archgrad.error("select", *TRAINING, *arguments)
    assert message in " ".join(err.split())
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "full"]


def test_a_search_that_is_not_finished(archgrad, searched, tmp_path):
    run = shutil.copytree(searched, tmp_path / "run")
    (run / "summary.json").write_text("{}")
    err = archgrad.error("select", run, *TRAINING)
    assert "does not say how long the search took" in " ".join(err.split())
