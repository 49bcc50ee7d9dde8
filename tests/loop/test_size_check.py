"""Searches that cannot fit into memory or time are refused before anything is built."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import archgrad as ag
from archgrad import recipes
from archgrad.data import ImageData, load
from archgrad.errors import UserError
from archgrad.loop import size_check
from archgrad.loop.setup import Setup
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
        size_check.check_supernet_memory(
            sized(space, channels, depth), recipes.named("gaea"), digits, 10, 16, torch.device("cpu")
        )


@pytest.mark.parametrize("space", ["nasbench201", "darts", "s1"])
def test_the_estimate_is_below_what_a_step_keeps_but_of_its_order(space: str) -> None:
    built = sized(space, 4, 9)
    options, shape = built.completed_options(), {"num_classes": 10, "input_channels": 3}
    kept: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        if not isinstance(tensor, torch.nn.Parameter):
            kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    mixture: Any = {
        block.name: torch.full((block.cells, *block.shape), 0.1) for block in built.searched_blocks(options)
    }
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        logits = built.supernet(options)(torch.rand(2, 3, 16, 16), mixture)
    del logits
    real, estimate = sum(kept.values()), size_check._activations(built, options, shape) * 2 * 16**2
    assert real / 3 < estimate < real
    assert size_check._least_activations(built, options) * 2 * 16**2 < estimate


@pytest.mark.parametrize("space", ["nasbench201", "darts", "nasbench1shot1-1"])
def test_weights_are_counted_without_building_them(space: str) -> None:
    built = sized(space, 65, 12)
    shape = {"num_classes": 10, "input_channels": 3}
    real = sum(weight.numel() for weight in built.supernet().parameters())
    assert size_check._parameters(built, built.completed_options(), shape) == pytest.approx(real, rel=0.02)


def test_ordinary_sizes_are_not_looked_at_closely(digits: ImageData, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(size_check, "_counted", None)
    monkeypatch.setattr(size_check, "_activations", None)
    space, method = SPACES.create("darts"), recipes.named("darts")
    size_check.check_supernet_memory(space, method, digits, 10, 64, torch.device("cpu"))


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
    setup = Setup.of(sized("nasbench201", 2, 1), method, digits, config)
    taken = sum(setup.moves(index).architecture for index in range(setup.weights.epochs * setup.steps))
    assert setup.arch_steps == taken > 0
