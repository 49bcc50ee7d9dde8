"""What a search shows while it runs."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

import archgrad as ag
from archgrad.cli.progress import LiveProgress, PlainProgress, progress_for, screen_numbers


@pytest.fixture(scope="module")
def tiny():
    return ag.spaces.NASBench201(channels=2, cells_per_stage=1), ag.data.digits(limit=80)


def test_plain_lines_where_there_is_no_terminal(tiny):
    space, data = tiny
    console = Console(file=io.StringIO(), force_terminal=False)
    progress = progress_for(console)
    assert isinstance(progress, PlainProgress)
    ag.search(space, ag.recipes.darts(), data, epochs=2, batch_size=20, callbacks=[progress])
    lines = console.file.getvalue().splitlines()
    assert [line.split(":")[0] for line in lines if line.startswith("epoch")] == ["epoch 1/2", "epoch 2/2"]
    assert lines[0].startswith("α's learning rate is 0.0003 × ")
    explained = [line.strip().split(":")[0] for line in lines if line.startswith("  ") and "|" not in line]
    shown = next(line for line in lines if line.startswith("epoch 1/2"))
    assert {"held-out accuracy", "decided", "skip connections"} < set(explained)
    assert all(f"{name} " in shown for name in explained)
    assert len(explained) == len(set(explained))  # once, before the first epoch
    assert "\x1b" not in console.file.getvalue()


def test_a_live_display_on_a_terminal(tiny):
    space, data = tiny
    console = Console(file=io.StringIO(), force_terminal=True, width=150)
    progress = progress_for(console)
    assert isinstance(progress, LiveProgress)
    result = ag.search(space, ag.recipes.darts(), data, epochs=2, batch_size=20, callbacks=[progress])
    progress.close()
    shown = console.file.getvalue()
    for word in (
        "epoch 1/2",
        "estimating the time left",
        " left",
        "on images that train no weights",
        "decided",
        result.history[0]["genotype"],
    ):
        assert word in shown


def test_the_display_is_closed_when_the_search_fails(tiny):
    space, data = tiny
    console = Console(file=io.StringIO(), force_terminal=True, width=150)
    progress = LiveProgress(console)
    training = ag.WeightTraining(lr=1e30, clip=1e30)
    with pytest.raises(ag.DivergedError):
        ag.search(space, ag.recipes.darts(), data, epochs=2, batch_size=20, weights=training, callbacks=[progress])
    progress.close()
    progress.close()
    assert console._live_stack == []


def test_the_screen_shows_the_accuracy_of_the_images_that_train_the_architecture():
    shown = screen_numbers({"arch_loss": 2.0, "arch_accuracy": 50.0})
    assert [number.name for number in shown] == ["α loss", "α accuracy"]
