"""A dry run tells what a search would cost, and leaves nothing behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from archgrad.loop import sizes

TINY = ("--channels", 2, "--cells", 1, "--limit", 100, "--batch-size", 20, "--threads", 1)


def test_a_dry_run_estimates_and_starts_nothing(archgrad: Any) -> None:
    found = json.loads(archgrad.run("search", *TINY, "--epochs", 7, "--method", "darts", "--dry-run", "--json"))
    assert (found["channels"], found["depth"], found["epochs"], found["batch_size"]) == (2, 1, 7, 20)
    assert found["images"] == 100
    assert found["weight_steps"] == found["arch_steps"] == 7 * 2  # 50 images for each, batches of 20
    assert found["parameters"] > 1000
    assert found["seconds"] >= found["weight_steps"] * found["step_seconds"] > 0
    assert found["peak_megabytes"] is None or found["peak_megabytes"] > 50
    assert list(Path().iterdir()) == []


def test_it_says_so_in_lines(archgrad: Any) -> None:
    out = archgrad.run("search", *TINY, "--epochs", 3, "--dry-run", "--out", "run")
    assert "2 channels, depth 1, 3 epochs, batches of 20" in out
    assert "nothing was started" in out
    assert not Path("run").exists()


def test_sizes_that_are_free_are_chosen(archgrad: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "candidate_sizes", lambda config, data: [(None, 2, 1)])
    monkeypatch.setattr(sizes, "_step_seconds", lambda config, data, at_most: 0.01)
    out = archgrad.run("search", "--limit", 120, "--time-limit", 1, "--dry-run")
    assert "chosen for 1 minute (--time-limit): 2 channels, depth 1" in out
    assert "sizes      2 channels, depth 1, " in out


def test_a_search_that_cannot_run_is_refused(archgrad: Any) -> None:
    assert "batch_size is 90" in archgrad.error("search", *TINY, "--batch-size", 90, "--method", "darts", "--dry-run")
    assert "unknown data set in oracle" in archgrad.error("search", *TINY, "--oracle", "cifar11", "--dry-run")


def test_stages_are_added_up(archgrad: Any) -> None:
    stages = ("--method", "p-darts", "--set", "progressive.cells=1,1,2", "--set", "progressive.keep=5,4,3")
    stages += ("--set", "schedule.warmup_epochs=1")
    sizes = ("--space", "nasbench201", "--channels", 2, "--limit", 60, "--batch-size", 10, "--epochs", 2)
    found = json.loads(archgrad.run("search", *sizes, *stages, "--dry-run", "--json"))
    assert (found["depth"], found["weight_steps"], found["arch_steps"]) == ([1, 1, 2], 3 * 2 * 3, 3 * 3)
