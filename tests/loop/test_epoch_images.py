"""Epochs with a part of the images: the next one in each epoch."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import archgrad as ag
from archgrad.errors import SearchInterrupted
from archgrad.workflows import training
from archgrad.workflows.training import Training
from tests.workflows.small import CELL, assert_same_bits, interrupting, tensors, trained

CONSTANT = {"weights.lr": 0.05, "weights.lr_min": 0.05}


def test_short_epochs_go_on_where_the_last_one_ended() -> None:
    """At a constant rate, four epochs of half of the images are two whole ones: the same batches, so the same bits."""
    whole, halves = (
        trained(epochs=epochs, settings={**CONSTANT, **more})
        for epochs, more in ((2, {}), (4, {"weights.epoch_images": 40}))
    )
    own, others = tensors(whole.model), tensors(halves.model)
    assert all(torch.equal(value, others[name]) for name, value in own.items())
    assert [len(one.runs[0].history) for one in (whole, halves)] == [2, 4]


def test_more_images_than_there_are_make_one_pass() -> None:
    assert_same_bits(trained(epochs=1), trained(epochs=1, settings={"weights.epoch_images": 1000}))


def test_a_resumed_training_sees_the_same_images(tmp_path: Path) -> None:
    settings = {"weights.epoch_images": 60}
    whole = trained(settings=settings)
    with pytest.raises(SearchInterrupted, match=r"stopped after step 1 of 3 in epoch 2 of 2"):
        trained(settings=settings, out=tmp_path, interruptible=True, callbacks=interrupting(0, 4))
    assert_same_bits(whole, ag.resume(tmp_path))


@pytest.mark.parametrize(
    ("minutes", "given", "epochs", "images"),
    [(1.0, {}, 10, 756), (0.25, {}, 10, 189), (0.25, {"weights.epoch_images": 90}, 2, 90), (2.0, {}, 16, None)],
)
def test_a_short_time_is_divided_into_ten_epochs(
    monkeypatch: pytest.MonkeyPatch, minutes: float, given: dict[str, int], epochs: int, images: int | None
) -> None:
    """One pass of 900 training images takes 7 seconds."""
    monkeypatch.setattr(training, "epoch_seconds", lambda *args: 7.0)
    described = Training.of("nasbench201", CELL, ag.data.digits(limit=1000), time_limit=minutes, settings=given)
    config = described.complete()[0].config
    assert (config.epochs, config.settings.get("weights.epoch_images")) == (epochs, images)
