from __future__ import annotations

import dataclasses

import pytest
import torch

from archgrad.errors import UserError
from archgrad.training import WeightTraining


def test_the_published_settings_are_the_default() -> None:
    settings = WeightTraining()
    assert (settings.lr, settings.lr_min, settings.momentum, settings.weight_decay) == (0.025, 0.001, 0.9, 3e-4)
    assert (settings.clip, settings.batch_size, settings.epochs, settings.nesterov) == (5.0, 64, 50, False)


@pytest.mark.parametrize("epochs", [1, 5, 50])
def test_the_schedule_is_the_cosine_of_pytorch(epochs: int) -> None:
    settings = WeightTraining(epochs=epochs)
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=settings.lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs, settings.lr_min)
    for epoch in range(epochs):
        assert settings.lr_at(epoch) == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-12)
        optimizer.step()
        schedule.step()
    assert settings.lr_at(0) == settings.lr
    assert settings.lr_at(epochs) == pytest.approx(settings.lr_min)


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("lr", 0.0, "a number greater than 0"),
        ("lr", float("nan"), "a number greater than 0"),
        ("clip", 0.0, "a number greater than 0"),
        ("clip", -5.0, "a number greater than 0"),
        ("lr_min", -0.1, "a number of 0 or more"),
        ("momentum", -0.1, "a number from 0 to less than 1"),
        ("weight_decay", float("nan"), "a number of 0 or more"),
        ("batch_size", 0, "at least 1 and a whole number"),
        ("epochs", 0, "at least 1 and a whole number"),
    ],
)
def test_impossible_settings_are_explained(name: str, value: float, wanted: str) -> None:
    with pytest.raises(UserError, match=rf"weights\.{name} is {value}; it must be {wanted}"):
        dataclasses.replace(WeightTraining(), **{name: value})


@pytest.mark.parametrize("name", ["batch_size", "epochs"])
@pytest.mark.parametrize("value", [2.5, "3", True])
def test_counts_are_whole_numbers(name: str, value: object) -> None:
    with pytest.raises(UserError, match=rf"weights\.{name} is .*; it must be at least 1 and a whole number"):
        dataclasses.replace(WeightTraining(), **{name: value})


def test_nesterov_needs_momentum() -> None:
    with pytest.raises(UserError, match=r"weights\.nesterov needs weights\.momentum greater than 0"):
        WeightTraining(momentum=0.0, nesterov=True)


@pytest.mark.parametrize(("first", "last"), [(3e-4, 81e-4), (81e-4, 3e-4), (0.0, 1e-3), (1e-3, 0.0)])
def test_the_weight_decay_moves_linearly_over_the_epochs(first: float, last: float) -> None:
    settings = WeightTraining(weight_decay=first, weight_decay_end=last, epochs=4)
    quarter = (last - first) / 4
    assert [settings.weight_decay_at(epoch) for epoch in range(5)] == pytest.approx(
        [first, first + quarter, first + 2 * quarter, first + 3 * quarter, last]
    )


def test_the_weight_decay_is_constant_by_default() -> None:
    settings = WeightTraining(weight_decay=0.1 + 0.2)
    assert {settings.weight_decay_at(epoch) for epoch in range(50)} == {0.1 + 0.2}


@pytest.mark.parametrize("value", [-1e-4, float("nan"), float("inf"), True, "0.1"])
def test_a_weight_decay_to_end_with_is_a_number(value: object) -> None:
    with pytest.raises(UserError, match=r"weights\.weight_decay_end is .*; it must be a number of 0 or more"):
        dataclasses.replace(WeightTraining(), weight_decay_end=value)
