"""The settings of the papers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import archgrad as ag
from archgrad.config.resolve import method_of, task_of
from archgrad.errors import UserError
from archgrad.spaces import named_space
from archgrad.workflows import PRESETS, Training, training
from tests.workflows.small import CELL, trained


@pytest.mark.parametrize(
    ("name", "batch", "drop", "cells", "channels"),
    [("cifar-darts", 96, 0.2, 20, 36), ("cifar-pc", 128, 0.3, 20, 36), ("reduced-r-darts", 96, 0.2, 8, 16)],
)
def test_cifar(name: str, batch: int, drop: float, cells: int, channels: int) -> None:
    """600 epochs, SGD 0.025 → 0, λ = 3e-4, clip 5, cutout 16, head 0.4; batch, drop-path and size by the paper."""
    one, weights = PRESETS[name], PRESETS[name].weights
    assert (weights.epochs, weights.batch_size, weights.lr, weights.lr_min) == (600, batch, 0.025, 0.0)
    assert (weights.momentum, weights.weight_decay, weights.clip, weights.lr_schedule) == (0.9, 3e-4, 5.0, "cosine")
    assert (one.cutout, one.auxiliary_head, one.drop_path, one.label_smoothing) == (16, 0.4, drop, 0.0)
    assert one.sizes_of(named_space("darts")) == {"channels": channels, "cells": cells, "stem": "cifar"}
    assert not one.top5


def test_other_spaces_have_the_sizes_of_their_literature() -> None:
    one = PRESETS["cifar-darts"]
    assert one.sizes_of(named_space("nasbench201")) == {"channels": 16, "cells": 5, "stem": "cifar"}
    assert one.sizes_of(named_space("resnet")) == {"channels": 16, "cells": 3}


@pytest.mark.parametrize(
    ("name", "batch", "warmup", "rates"),
    [
        ("imagenet-darts", 128, 0, {0: 0.1, 1: 0.097, 100: 0.1 * 0.97**100, 249: 0.1 * 0.97**249}),
        ("imagenet-pc", 1024, 5, {0: 0.1, 4: 0.5, 125: 0.25, 249: 0.002}),
        ("imagenet-idarts", 128, 0, {0: 0.1, 49: 0.08, 244: 0.1 / 245, 245: 0.1 / 245, 249: 0.02 / 245}),
    ],
)
def test_imagenet(name: str, batch: int, warmup: int, rates: dict[int, float]) -> None:
    """250 epochs, λ = 3e-5, smoothing 0.1, head 0.4, 14 cells, 48 channels; batch and rate by the paper."""
    one, weights = PRESETS[name], PRESETS[name].weights
    assert (weights.epochs, weights.batch_size, weights.lr_warmup_epochs) == (250, batch, warmup)
    assert {epoch: weights.lr_at(epoch) for epoch in rates} == pytest.approx(rates, rel=1e-9)
    assert (weights.weight_decay, weights.momentum, weights.clip) == (3e-5, 0.9, 5.0)
    assert (one.label_smoothing, one.auxiliary_head, one.drop_path, one.cutout) == (0.1, 0.4, 0.0, 0)
    assert one.sizes_of(named_space("darts")) == {"channels": 48, "cells": 14, "stem": "imagenet"}


def test_every_setting_has_a_source() -> None:
    for one in PRESETS.values():
        listed = {path: source for path, _, source in one.listed()}
        assert all(listed.values())
        assert set(one.elsewhere) <= set(listed)  # no source of a setting that is off


def test_top5_is_counted_where_there_are_more_than_five_classes(tmp_path: Path) -> None:
    def counted(preset: str, classes: int, **options: Any) -> bool:
        data = archive(tmp_path / f"{classes}.npz", classes=classes)
        return bool(task_of(complete(data, preset, stem="cifar", **options)[0].config).top5)  # type: ignore[attr-defined]

    assert counted("imagenet-pc", 6)
    assert not counted("imagenet-pc", 5)
    assert not counted("imagenet-pc", 6, settings={"task.top5": False})
    assert not counted("cifar-darts", 6)


@pytest.mark.parametrize(("space", "head", "drop"), [("darts", 0.4, 0.2), ("nasbench201", 0.0, 0.2), ("resnet", 0, 0)])
def test_a_network_gets_what_it_can_have(space: str, head: float, drop: float) -> None:
    genotype = {"darts": "darts-v2", "nasbench201": CELL, "resnet": "resnet"}[space]
    options = method_of(Training.of(space, genotype, preset="cifar-darts").config).supernet
    assert (options.auxiliary_head, options.drop_path) == (head, drop)


def test_label_smoothing_is_that_of_the_preset() -> None:
    found = [
        task_of(Training.of("darts", "darts-v2", preset="imagenet-pc", **more).config)
        for more in ({}, {"settings": {"task.label_smoothing": 0.3}}, {"task": "multilabel"})
    ]
    assert [getattr(task, "label_smoothing", None) for task in found] == [0.1, 0.3, None]


def archive(path: Path, size: int = 8, tests: int = 20, channels: int = 1, classes: int = 2) -> str:
    draws = np.random.default_rng(0)
    images = draws.integers(0, 255, (80, size, size, channels), np.uint8)
    parts = {"x_train": images[:60], "y_train": np.arange(60) % classes}
    more = {"x_test": images[60 : 60 + tests], "y_test": np.arange(tests) % classes} if tests else {}
    np.savez(path, **parts, **more)
    return f"npz:{path}"


def complete(data: str, preset: str, **options: Any) -> tuple[Training, Any, Any]:
    return Training.of("nasbench201", CELL, data, preset=preset, epochs=1, **options).complete()


def test_cutout_grows_with_the_images(tmp_path: Path) -> None:
    for size, cutout in ((8, 4), (32, 16), (64, 32)):
        data = archive(tmp_path / f"{size}.npz", size)
        assert complete(data, "cifar-darts")[1].augmentation.cutout == cutout
        assert complete(data, "quick")[1].augmentation.cutout == 0
        own = complete(data, "cifar-darts", settings={"augmentation.cutout": 2})
        assert own[1].augmentation.cutout == 2


def test_all_images_train_only_where_others_test(tmp_path: Path) -> None:
    tested, untested = archive(tmp_path / "a.npz"), archive(tmp_path / "b.npz", tests=0)
    assert complete(tested, "cifar-darts")[0].config.held_out == 0.0
    assert complete(tested, "cifar-darts", held_out=0.2)[0].config.held_out == 0.2
    assert complete(tested, "quick")[0].config.held_out == 0.1
    assert complete(untested, "cifar-darts")[0].config.held_out == 0.1


def test_the_time_chooses_the_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "epoch_seconds", lambda config, data, at_most, at_least: 7.0)

    def epochs_of(**options: Any) -> int | None:
        return Training.of("nasbench201", CELL, ag.data.digits(limit=40), **options).complete()[0].config.epochs

    for given, epochs in (({}, 42), ({"time_limit": 1.0}, 8), ({"time_limit": 1e-3}, 1), ({"time_limit": 600.0}, 300)):
        assert epochs_of(**given) == epochs
    assert epochs_of(settings={"weights.lr_warmup_epochs": 2}) == 42
    assert epochs_of(preset="cifar-darts") is None  # the preset has a number


def test_the_time_is_measured_with_the_threads_of_the_training(monkeypatch: pytest.MonkeyPatch) -> None:
    used = []

    def seconds(*arguments: object) -> float:
        used.append(torch.get_num_threads())
        return 7.0

    monkeypatch.setattr(training, "epoch_seconds", seconds)
    before = torch.get_num_threads()
    for threads in (1, 2):
        Training.of("nasbench201", CELL, ag.data.digits(limit=40), threads=threads).complete()
    assert (used, torch.get_num_threads()) == ([1, 2], before)


def test_a_measured_time_is_about_kept() -> None:
    found = trained(epochs=None, time_limit=0.02)
    assert 1 <= found.epochs <= 300


def test_unknown_words_are_explained() -> None:
    with pytest.raises(UserError, match=r"unknown preset 'cifar-dart'; did you mean 'cifar-darts'\?"):
        trained(preset="cifar-dart")
    with pytest.raises(UserError, match=r"unknown option of a training: 'epoch'; did you mean 'epochs'"):
        trained(epoch=3)
    with pytest.raises(UserError, match=r"unknown option of a training: 'method'"):
        trained(method="darts")
    with pytest.raises(UserError, match=r"settings is \[1\]; it must be a dictionary"):
        trained(settings=[1])
    for path in ("schedule.level", "arch_optimizer.lr", "relaxation.tau"):
        with pytest.raises(UserError, match=rf"the setting '{path}' is for searches; give knobs of weights"):
            trained(settings={path: 1})
    with pytest.raises(UserError, match=r"the setting 'space\.cells' is for searches; give channels, cells or stem"):
        trained(settings={"space.cells": 1})
    with pytest.raises(UserError, match=r"seeds is 0; give a number of trainings from 1 to 1000, or a list"):
        trained(seeds=0)
    with pytest.raises(UserError, match=r"seeds is \[1, 1\]; each seed may be there once"):
        trained(seeds=[1, 1])
