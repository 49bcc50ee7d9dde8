"""The settings of the papers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import archgrad as ag
from archgrad.errors import UserError
from archgrad.spaces import named_space
from archgrad.workflows import PRESETS, TrainingPlan, time_plan
from archgrad.workflows.training_config import training_config
from tests.workflows.small import CELL, trained


def test_cifar() -> None:
    """DARTS: 600 epochs, batch 96, SGD 0.025 → 0, λ = 3e-4, clip 5, cutout 16, head 0.4, drop-path 0.2."""
    one, weights = PRESETS["cifar"], PRESETS["cifar"].weights
    assert (weights.epochs, weights.batch_size, weights.lr, weights.lr_min) == (600, 96, 0.025, 0.0)
    assert (weights.momentum, weights.weight_decay, weights.clip, weights.lr_schedule) == (0.9, 3e-4, 5.0, "cosine")
    assert (one.cutout, one.auxiliary_head, one.drop_path, one.label_smoothing) == (16, 0.4, 0.2, 0.0)
    assert one.sizes_of(named_space("darts")) == {"channels": 36, "cells": 20, "stem": "cifar"}
    assert one.sizes_of(named_space("nasbench201")) == {"channels": 16, "cells": 5, "stem": "cifar"}
    assert one.sizes_of(named_space("resnet")) == {"channels": 16, "cells": 3}


def test_imagenet() -> None:
    """PC-DARTS: 250 epochs, batch 1024, 0.5 falling linearly after a warm-up, λ = 3e-5, smoothing 0.1, head 0.4."""
    one, weights = PRESETS["imagenet"], PRESETS["imagenet"].weights
    assert (weights.epochs, weights.batch_size, weights.lr, weights.lr_schedule) == (250, 1024, 0.5, "linear")
    assert (weights.lr_warmup_epochs, weights.weight_decay, weights.clip) == (5, 3e-5, 5.0)
    assert (one.label_smoothing, one.auxiliary_head, one.drop_path, one.cutout) == (0.1, 0.4, 0.0, 0)
    assert one.sizes_of(named_space("darts")) == {"channels": 48, "cells": 14, "stem": "imagenet"}


@pytest.mark.parametrize(("space", "head", "drop"), [("darts", 0.4, 0.2), ("nasbench201", 0.0, 0.2), ("resnet", 0, 0)])
def test_a_network_gets_what_it_can_have(space: str, head: float, drop: float) -> None:
    genotype = {"darts": "darts-v2", "nasbench201": CELL, "resnet": "resnet"}[space]
    config = training_config(space, genotype, "digits", "cifar")
    options = config.build_method().supernet
    assert (options.auxiliary_head, options.drop_path) == (head, drop)


def test_label_smoothing_is_that_of_the_preset() -> None:
    found = [
        training_config("darts", "darts-v2", "digits", "imagenet", **more).build_task()
        for more in ({}, {"settings": {"task.label_smoothing": 0.3}}, {"task": "multilabel"})
    ]
    assert [getattr(task, "label_smoothing", None) for task in found] == [0.1, 0.3, None]


def archive(path: Path, size: int = 8, tests: int = 20, channels: int = 1) -> str:
    draws = np.random.default_rng(0)
    images = draws.integers(0, 255, (80, size, size, channels), np.uint8)
    parts = {"x_train": images[:60], "y_train": np.arange(60) % 2}
    more = {"x_test": images[60 : 60 + tests], "y_test": np.arange(tests) % 2} if tests else {}
    np.savez(path, **parts, **more)
    return f"npz:{path}"


def complete(data: str, preset: str, **options: Any) -> tuple[TrainingPlan, Any, Any]:
    config = training_config("nasbench201", CELL, data, preset, epochs=1, **options)
    return TrainingPlan(config, preset, (0,), None, "held_out" not in options).complete()


def test_cutout_grows_with_the_images(tmp_path: Path) -> None:
    for size, cutout in ((8, 4), (32, 16), (64, 32)):
        data = archive(tmp_path / f"{size}.npz", size)
        assert complete(data, "cifar")[1].augmentation.cutout == cutout
        assert complete(data, "quick")[1].augmentation.cutout == 0
        own = complete(data, "cifar", settings={"augmentation.cutout": 2})
        assert own[1].augmentation.cutout == 2


def test_all_images_train_only_where_others_test(tmp_path: Path) -> None:
    tested, untested = archive(tmp_path / "a.npz"), archive(tmp_path / "b.npz", tests=0)
    assert complete(tested, "cifar")[0].config.held_out == 0.0
    assert complete(tested, "cifar", held_out=0.2)[0].config.held_out == 0.2
    assert complete(tested, "quick")[0].config.held_out == 0.1
    assert complete(untested, "cifar")[0].config.held_out == 0.1


def test_the_time_chooses_the_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_plan, "epoch_seconds", lambda config, data, at_most: 7.0)
    data = ag.data.digits(limit=40)
    for given, epochs in (({}, 42), ({"time_limit": 1.0}, 8), ({"time_limit": 1e-3}, 1), ({"time_limit": 600.0}, 300)):
        config = training_config("nasbench201", CELL, data, **given)
        assert TrainingPlan(config, "quick", (0,)).complete()[0].config.epochs == epochs
    config = training_config("nasbench201", CELL, data, settings={"weights.lr_warmup_epochs": 2})
    assert TrainingPlan(config, "quick", (0,)).complete()[0].config.epochs == 42
    config = training_config("nasbench201", CELL, data, "cifar")
    assert TrainingPlan(config, "cifar", (0,)).complete()[0].config.epochs is None  # the preset has a number


def test_a_measured_time_is_about_kept() -> None:
    found = trained(epochs=None, time_limit=0.02)
    assert 1 <= found.epochs <= 300


def test_unknown_words_are_explained() -> None:
    with pytest.raises(UserError, match=r"unknown preset 'cifra'; did you mean 'cifar'\?"):
        trained(preset="cifra")
    with pytest.raises(UserError, match=r"unknown option of a training: 'epoch'; did you mean 'epochs'"):
        trained(epoch=3)
    with pytest.raises(UserError, match=r"unknown option of a training: 'method'"):
        trained(method="darts")
    with pytest.raises(UserError, match=r"settings is \[1\]; it must be a dictionary"):
        trained(settings=[1])
    for path in ("schedule.level", "arch_optimizer.lr", "relaxation.tau"):
        with pytest.raises(UserError, match=rf"the setting '{path}' is for searches; a training has knobs of weights"):
            trained(settings={path: 1})
    with pytest.raises(UserError, match=r"the setting 'space\.cells' is for searches; give channels, cells or stem"):
        trained(settings={"space.cells": 1})
    with pytest.raises(UserError, match=r"seeds is 0; give a number of trainings from 1 to 1000, or a list"):
        trained(seeds=0)
    with pytest.raises(UserError, match=r"seeds is \[1, 1\]; each seed may be there once"):
        trained(seeds=[1, 1])
