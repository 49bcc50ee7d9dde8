"""Batch norms that would have a single value per channel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from experiments import experiment_of
from varied_spaces import small_space

import archgrad as ag
from archgrad.errors import UserError
from archgrad.loop.experiment import Experiment


def toy(side: int, count: int = 12) -> ag.data.ImageData:
    images = torch.randint(0, 256, (count, 3, side, side), generator=torch.Generator().manual_seed(0)).byte()
    return ag.data.ImageData("toy", images, torch.arange(count) % 2, ("a", "b"))


def prepared(name: str, side: int, **options: Any) -> Experiment:
    config = ag.SearchConfig(epochs=1, alpha_budget="off", **options)
    return experiment_of(small_space(name, channels=2), ag.recipes.darts(), toy(side), config)


@pytest.mark.parametrize("name", ["nasbench201", "darts", "nasbench1shot1-2"])
def test_one_value_per_channel_is_refused_before_training(name: str) -> None:
    with pytest.raises(UserError, match=r"train the weights come in batches of 1, .* shrinks 4×4 pixels to 1×1"):
        prepared(name, 4, batch_size=1).initial_state()
    prepared(name, 5, batch_size=1).initial_state()  # two reductions leave 2×2 pixels
    prepared(name, 1, batch_size=2, held_out=0.0).initial_state()


def test_a_single_held_out_image_is_refused_too() -> None:
    with pytest.raises(UserError, match="the images that are held out come in batches of 1"):
        prepared("nasbench201", 4, batch_size=4, held_out=0.1).initial_state()


def test_the_check_draws_nothing_and_larger_batches_need_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def weights() -> torch.Tensor:
        torch.manual_seed(0)
        state = prepared("nasbench201", 5, batch_size=1).initial_state()
        return torch.cat([*(one.flatten() for one in state.supernet.parameters()), torch.rand(1)])

    checked = weights()
    monkeypatch.setattr("archgrad.loop.experiment.check_norms", lambda setup, supernet: None)
    assert torch.equal(checked, weights())
    monkeypatch.undo()
    monkeypatch.setattr("archgrad.supernet.Supernet.forward", lambda *values: pytest.fail("the network was called"))
    prepared("nasbench201", 5, batch_size=2, held_out=0.0).initial_state()


def test_the_command_says_so_and_leaves_nothing_behind(archgrad: Any) -> None:
    tiny = ("--channels", 2, "--cells", 1, "--limit", 40, "--epochs", 1)
    assert "a batch norm has one value per channel" in archgrad.error(
        "search", *tiny, "--image-size", 4, "--batch-size", 1
    )
    assert not Path("runs").exists()


def test_local_statistics_are_part_of_what_a_run_is(tmp_path: Path) -> None:
    own: dict[str, Any] = {"epochs": 1, "batch_size": 16, "channels": 2, "cells": 1, "limit": 60, "out": tmp_path}
    ag.search("nasbench201", "darts", "digits", local_batch_norm=True, standard_callbacks=False, **own)
    with pytest.raises(UserError, match="its local_batch_norm is True, this one's is the default"):
        ag.search("nasbench201", "darts", "digits", resume=True, **own)
    assert ag.resume(tmp_path).epochs == 1
