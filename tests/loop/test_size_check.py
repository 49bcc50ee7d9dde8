"""Searches that cannot fit into memory or time are refused before anything is built."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from experiments import experiment_of

import archgrad as ag
from archgrad import recipes
from archgrad.data import ImageData, load
from archgrad.errors import UserError
from archgrad.loop import checks
from archgrad.spaces import SPACES, SearchSpace
from archgrad.training.schedule import Schedule
from archgrad.training.weight_training import WeightTraining


@pytest.fixture(scope="module")
def digits() -> ImageData:
    return load("digits", limit=200)


def sized(name: str, channels: int, depth: int) -> SearchSpace:
    space = SPACES.create(name)
    sizes: dict[str, Any] = {"channels": channels, space.depth_knob: depth}
    return replace(space, **sizes)


@pytest.mark.parametrize("space", ["nasbench201", "darts", "s1", "amended-a2", "nasbench1shot1-3"])
@pytest.mark.parametrize(("channels", "depth"), [(10_000, 9), (1000, 1000)])
def test_absurd_supernets_are_refused(space: str, channels: int, depth: int, digits: ImageData) -> None:
    with pytest.raises(UserError, match=r"would take at least [\d,]+ GB of memory, but there are"):
        checks.check_supernet_memory(
            sized(space, channels, depth), recipes.named("gaea"), digits, 10, 16, torch.device("cpu")
        )


@pytest.mark.parametrize("space", ["nasbench201", "darts", "nasbench1shot1-1"])
def test_weights_are_counted_without_building_them(space: str) -> None:
    built = sized(space, 65, 12)
    shape = {"num_classes": 10, "input_channels": 3}
    real = sum(weight.numel() for weight in built.supernet().parameters())
    assert checks._parameters(built, built.completed_options(), shape) == pytest.approx(real, rel=0.02)


def test_ordinary_sizes_are_not_looked_at_closely(digits: ImageData, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "_counted", None)
    space, method = SPACES.create("darts"), recipes.named("darts")
    checks.check_supernet_memory(space, method, digits, 10, 64, torch.device("cpu"))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"epochs": 10**9}, "epochs is 1000000000; it must be at most 1,000,000"),
        ({"epochs": 10**6}, "epochs is 1000000, so the search would take 11,000,000 steps"),
        ({"cells": 10**6}, "is 1000000; it must be at most 1,000"),
        ({"channels": 10**4, "cells": 5}, "would take at least"),
        ({"batch_size": 10**9}, "batch_size is 1000000000"),
        ({"hypergradient": "neumann", "settings": {"hypergradient.terms": 10**9}}, "hypergradient.terms is 1000000000"),
        ({"settings": {"augmentation.cutout": 10**30}}, "cutout"),
    ],
)
def test_absurd_sizes_leave_nothing_behind(options: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    given = {"channels": 2, "cells": 1, "epochs": 1, "batch_size": 16, "limit": 200} | options
    with pytest.raises(UserError, match=sentence):
        ag.search("nasbench201", "gaea", "digits", out=tmp_path / "run", **given)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("schedule", [Schedule(), Schedule(inner_steps=3), Schedule(warmup_epochs=2, inner_steps=2)])
def test_architecture_steps_are_counted_as_they_are_taken(schedule: Schedule, digits: ImageData) -> None:
    method = replace(recipes.named("darts"), schedule=schedule)
    config = ag.SearchConfig(weights=WeightTraining(epochs=4, batch_size=16))
    setup = experiment_of(sized("nasbench201", 2, 1), method, digits, config)
    taken = sum(setup.moves(index).architecture for index in range(setup.weights.epochs * setup.steps))
    assert setup.arch_steps == taken > 0
