"""An interrupted training continues to the same bits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import archgrad as ag
from archgrad.errors import SearchInterrupted, UserError
from archgrad.system.run_kind import write_kind
from tests.workflows.small import CELL, OWN_CELL, TINY, Own, assert_same_bits, interrupting, tensors, trained, untimed

AVERAGED = {"weights.ema_decay": 0.9, "supernet.drop_path": 0.2}


def test_what_a_search_leaves_out_is_no_part_of_a_training(tmp_path: Path) -> None:
    """The recipe of GAEA searches without `none`; files name the space all the same."""
    sizes: dict[str, Any] = {"epochs": 1, "channels": 2, "cells": 1}
    found = ag.search("nasbench201", "gaea", "digits", limit=100, **sizes)
    assert found.space.exclude == ("none",)
    assert_same_bits(found.train(out=tmp_path, **sizes), ag.resume(tmp_path))


def test_in_the_middle_of_an_epoch(tmp_path: Path) -> None:
    whole = trained(settings=AVERAGED, out=tmp_path / "whole")
    with pytest.raises(SearchInterrupted, match=r"stopped after step 2 of 4 in epoch 2 of 2, seed 0; continue with"):
        trained(settings=AVERAGED, out=tmp_path / "run", interruptible=True, callbacks=interrupting(0, 6))
    assert not (tmp_path / "run" / "result.json").exists()
    assert not (tmp_path / "run" / "model").exists()
    resumed = ag.resume(tmp_path / "run")
    assert_same_bits(whole, resumed)
    contents = [json.loads((tmp_path / name / "result.json").read_text()) for name in ("whole", "run")]
    assert untimed(contents[0]) == untimed(contents[1])
    loaded = ag.Model.load(tmp_path / "run")
    assert all(torch.equal(value, tensors(resumed.model)[name]) for name, value in tensors(loaded).items())
    assert_same_bits(whole, ag.resume(tmp_path / "run"))  # nothing is left to do


def test_in_the_second_seed_by_the_command(archgrad: Any, tmp_path: Path) -> None:
    whole = trained(seeds=2, seed=5, epochs=1)
    with pytest.raises(SearchInterrupted, match=rf"seed 6; continue with `archgrad resume {tmp_path}/run`"):
        trained(
            seeds=2, seed=5, epochs=1, out=tmp_path / "run", interruptible=True, callbacks=interrupting(1, 2)
        )  # fmt: skip
    assert (tmp_path / "run" / "seed-5" / "model" / "model.json").exists()
    with pytest.raises(UserError, match=r"seed-6 holds one seed of a training; continue all of it with `archgrad res"):
        ag.resume(tmp_path / "run" / "seed-6")
    assert untimed(json.loads(archgrad.run("resume", tmp_path / "run", "--json"))) == untimed(whole.to_dict())
    resumed = ag.resume(tmp_path / "run")
    assert_same_bits(whole, resumed)
    assert [run.seed for run in resumed.runs] == [5, 6]
    assert not torch.equal(*(next(run.model.network.parameters()) for run in resumed.runs))


def test_seeds_by_their_numbers_with_few_images(tmp_path: Path) -> None:
    """The first seed chooses the images, also when the training is resumed from its files."""
    whole = trained(seeds=[7], epochs=1)
    with pytest.raises(SearchInterrupted):
        trained(seeds=[7], epochs=1, out=tmp_path, interruptible=True, callbacks=interrupting(0, 2))
    assert_same_bits(whole, ag.resume(tmp_path))


def test_a_space_of_ones_own(tmp_path: Path) -> None:
    class Unnamed(Own):
        name = "unnamed"

    options: dict[str, Any] = {**TINY, "channels": 2, "epochs": 1}
    for number, space in enumerate((Unnamed(channels=2, cells_per_stage=1), Own(channels=2, cells_per_stage=1))):
        whole = ag.train(space, OWN_CELL, **options)
        home = tmp_path / str(number)
        with pytest.raises(SearchInterrupted):
            ag.train(space, OWN_CELL, out=home, interruptible=True, callbacks=interrupting(0, 2), **options)
        if number == 0:
            with pytest.raises(UserError, match=r"the space of .* cannot be named .*archgrad.resume\(DIR, space=…\)"):
                ag.resume(home)
            with pytest.raises(UserError):
                ag.resume(home, space=Own(channels=2, cells_per_stage=1))
            # The size of the training is in its files.
            assert_same_bits(whole, ag.resume(home, space=Unnamed()))
            loaded = ag.Model.load(home, space=whole.space)
            assert loaded.network(torch.zeros(1, 1, 8, 8)).shape == (1, 10)
        else:
            assert_same_bits(whole, ag.resume(home))


def test_images_and_a_task_of_ones_own(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 255, (60, 8, 8), np.uint8)
    data, test = (images, images.mean((1, 2)) / 255), (images[:20], images[:20].mean((1, 2)) / 255)
    task = ag.Task(lambda outputs, targets: (outputs - targets).abs().mean())
    options: dict[str, Any] = {**TINY, "limit": None, "task": task, "test": test}
    whole = ag.train("nasbench201", CELL, data, **options)
    with pytest.raises(SearchInterrupted):
        ag.train(
            "nasbench201", CELL, data, **options, out=tmp_path, interruptible=True, callbacks=interrupting(0, 3)
        )  # fmt: skip
    with pytest.raises(UserError, match=r"cannot be named .*data=…, task=…, test=…\)"):
        ag.resume(tmp_path)
    with pytest.raises(UserError, match=r"the data and task of .* cannot be named .*data=…, task=…\)"):
        ag.resume(tmp_path, test=test)
    assert_same_bits(whole, ag.resume(tmp_path, data=data, test=test, task=task))


def test_nothing_to_resume(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"interruptible=True needs out=FOLDER"):
        trained(interruptible=True)
    with pytest.raises(UserError, match=r"there is no folder '.*no-run'"):
        ag.resume(tmp_path / "no-run")
    with pytest.raises(UserError, match=r"is not a run directory: it has no run\.json"):
        ag.resume(tmp_path)
    assert not (tmp_path / "no-run").exists()


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        ("", "does not describe a training"),
        ("[" * 100_000, "does not describe a training"),
        ("[1]", "does not describe a training"),
        ('{"preset": "quick", "seeds": [0]}', "does not describe a training"),
        ('{"preset": "quick", "seeds": [0], "test": 7}', "wrong preset, seeds, test or set"),
        ('{"preset": "quick", "seeds": 10000, "test": null}', "wrong preset, seeds, test or set"),
        ('{"preset": "quick", "seeds": [0], "test": null, "set": 7}', "wrong preset, seeds, test or set"),
        ('{"preset": "quick", "seeds": [0, 0], "test": null}', "each seed may be there once"),
        ('{"preset": "quick", "seeds": ["a"], "test": null}', "give a number of trainings"),
        ('{"preset": "slow", "seeds": [0], "test": null}', "unknown preset 'slow'"),
    ],
)
def test_a_damaged_plan(tmp_path: Path, content: str, wanted: str) -> None:
    write_kind(tmp_path, "training")
    (tmp_path / "config.toml").write_text("")
    (tmp_path / "training.json").write_text(content)
    with pytest.raises(UserError, match=wanted):
        ag.resume(tmp_path)
