"""What a search shows while it runs."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

import archgrad as ag
from archgrad.callbacks.progress import SearchProgress, epoch_numbers
from archgrad.tasks import ACCURACY, MetricInfo


@pytest.fixture(scope="module")
def tiny():
    return ag.spaces.NASBench201(channels=2, cells_per_stage=1), ag.data.digits(limit=80)


def test_plain_lines_where_there_is_no_terminal(tiny):
    space, data = tiny
    console = Console(file=io.StringIO(), force_terminal=False)
    progress = SearchProgress(console)
    settings = {"epochs": 3, "batch_size": 20, "alpha_budget": "off"}
    result = ag.search(space, ag.recipes.darts(), data, **settings, callbacks=[progress])
    first, *lines = console.file.getvalue().splitlines()
    assert first.startswith("α's learning rate is 0.0003")
    epochs = [line for line in lines if line.startswith("epoch")]
    assert [line.split(":")[0] for line in epochs] == ["epoch 1/3", "epoch 2/3", "epoch 3/3"]
    for line in epochs[:2]:
        numbers = line.partition(": ")[2].split(", ")
        assert [one.rstrip("0123456789. %:s") for one in numbers[:2]] == ["held-out accuracy", "decided"]
        assert numbers[2].endswith(("skip", "skips"))
        assert numbers[3].endswith(" left")
    cells = [record["genotype"] for record in result.history]
    changed = [cell for place, cell in enumerate(cells) if not place or cell != cells[place - 1]]
    assert [line.strip() for line in lines if "|" in line] == changed
    assert "\x1b" not in console.file.getvalue()


def test_a_terminal_has_a_bar_and_the_same_lines(tiny):
    space, data = tiny
    console = Console(file=io.StringIO(), force_terminal=True, width=150)
    progress = SearchProgress(console)
    result = ag.search(space, ag.recipes.darts(), data, epochs=2, batch_size=20, callbacks=[progress])
    shown = console.file.getvalue()
    for word in ("epoch 1/2", "estimating the time left", "━", "decided", result.history[0]["genotype"]):
        assert word in shown
    assert console._live_stack == []


def test_the_display_is_closed_when_the_search_fails(tiny):
    space, data = tiny
    console = Console(file=io.StringIO(), force_terminal=True, width=150)
    progress = SearchProgress(console)
    training = ag.WeightTraining(lr=1e30, clip=1e30)
    with pytest.raises(ag.DivergedError):
        ag.search(space, ag.recipes.darts(), data, epochs=2, batch_size=20, weights=training, callbacks=[progress])
    progress.close()
    progress.close()
    assert console._live_stack == []


def test_a_training_shows_its_loss_and_its_best_epoch():
    history = [{"train_loss": 1.25, "heldout_accuracy": 60.0}, {"train_loss": 1.0, "heldout_accuracy": 50.0}]
    assert epoch_numbers(history, ACCURACY) == ["loss 1.000", "held-out accuracy 50.00 %", "best 60.00 %"]
    errors = [{"train_rmse": 0.5}, {"train_rmse": 0.7, "heldout_rmse": None}]
    lower = MetricInfo("rmse", higher_is_better=False)
    assert epoch_numbers(errors, lower) == ["training rmse 0.7", "best 0.5"]


def test_without_held_out_images_those_of_the_architecture_count():
    record = {"arch_loss": 2.0, "arch_accuracy": 50.0, "train_accuracy": 70.0, "entropy": 0.7, "entropy_max": 1.4}
    assert epoch_numbers([record], ACCURACY) == ["α accuracy 50.00 %", "decided 50 %"]
