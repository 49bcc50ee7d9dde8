"""What a record says of loss and accuracy means one thing, whatever the method."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from experiments import experiment_of
from listening import EpochFinished, Event, SearchStarted, StepFinished, listening, on
from spying import spied
from tiny_space import Tiny

import archgrad as ag
from archgrad.config import SearchConfig
from archgrad.data import Loader
from archgrad.errors import UserError
from archgrad.hypergradients import TruncatedReverse
from archgrad.relaxations import expand_to_cells

DATA = ag.data.digits(limit=100)
SPACE = Tiny(channels=4, cells_per_stage=1)
SETTINGS: dict[str, Any] = {"epochs": 2, "batch_size": 10, "seed": 0}

ESTIMATES = {
    "first order": ag.recipes.darts(),
    "second order": ag.recipes.darts(order=2),
    "Neumann": ag.recipes.idarts(inner_steps=1),
    "amended": ag.recipes.amended(),
    "truncated-reverse": replace(ag.recipes.darts(), hypergradient=TruncatedReverse(steps=2, keep=2)),
    "per example": ag.recipes.xnas(),
}


@lru_cache
def first_means(method: ag.Method) -> dict[str, float]:
    """Return what the first step records, whose weights are the same for every method; then stop."""
    found: list[dict[str, float]] = []

    def look(event: StepFinished) -> None:
        found.append(event.means)
        raise KeyboardInterrupt

    watch = on(StepFinished, look)
    with pytest.raises(KeyboardInterrupt):
        ag.search(SPACE, method, DATA, **{**SETTINGS, "epochs": 1}, callbacks=watch, standard_callbacks=False)
    return found[0]


@pytest.mark.parametrize("method", ESTIMATES.values(), ids=ESTIMATES)
def test_the_loss_of_the_architecture_is_that_at_the_weights_for_every_estimate(method: ag.Method) -> None:
    method = replace(method, relaxation=ag.relaxations.Simplex(), arch_optimizer=ag.arch_optimizers.MirrorDescent())
    plain = replace(method, hypergradient=ag.hypergradients.FirstOrder())
    found, expected = first_means(method), first_means(plain)
    assert found["arch_loss"] == pytest.approx(expected["arch_loss"], rel=1e-6)
    assert found["arch_accuracy"] == expected["arch_accuracy"]


@pytest.mark.parametrize("name", ["unrolled", "truncated-reverse", "neumann"])
def test_it_is_measured_without_the_terms_of_regularizers(name: str) -> None:
    """Looking ahead, nothing is evaluated at the weights; layer alignment outside differentiates what is."""
    outside = ag.regularizers.LayerAlignment(objective="outer", schedule="constant", weight=5.0)
    method = replace(
        ag.recipes.darts(), hypergradient=ag.hypergradients.HYPERGRADIENTS.create(name), regularizers=(outside,)
    )
    expected = first_means(ag.recipes.darts())["arch_loss"]
    assert first_means(method)["arch_loss"] == pytest.approx(expected, rel=1e-6)


def test_the_training_loss_has_no_part_of_the_auxiliary_head() -> None:
    space, options = ag.spaces.DARTS(channels=2, cells=3), ag.SupernetOptions(auxiliary_head=5.0)
    states: list[Any] = []

    def look(event: Event) -> None:
        if isinstance(event, SearchStarted):
            weights = {name: value.detach().clone() for name, value in event.state.weights.items()}
            states.append((weights, event.state.alpha))
        elif isinstance(event, StepFinished):
            states.append(event.means)

    method = replace(ag.recipes.darts(), arch_optimizer=ag.arch_optimizers.Fixed(), supernet=options)
    ag.search(space, method, DATA, **{**SETTINGS, "epochs": 1}, callbacks=listening(look), standard_callbacks=False)
    setup = experiment_of(space, method, DATA, SearchConfig(**SETTINGS))
    batch, (weights, alpha) = setup.weight_loader.batch(0), states[0]
    mixture = expand_to_cells(setup.blocks, method.relaxation.probabilities(setup.blocks, alpha))
    logits = torch.func.functional_call(space.supernet(options, input_channels=1), weights, (batch.inputs, mixture))
    assert states[1]["train_loss"] == pytest.approx(F.cross_entropy(logits, batch.targets).item(), rel=1e-5)


@pytest.mark.parametrize("name", ["darts", "darts-2nd", "gaea", "gaea-simultaneous", "gdas", "drnas", "random-nas"])
def test_every_kind_of_method_logs_a_held_out_accuracy(name: str) -> None:
    history = ag.search(SPACE, ag.recipes.named(name), DATA, **SETTINGS).history
    assert all(0 <= record["heldout_accuracy"] <= 100 and record["heldout_loss"] > 0 for record in history)


def test_no_step_of_a_single_level_search_draws_what_is_held_out(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: dict[str, set[int]] = {}

    def note(self: Loader, index: int) -> None:
        drawn.setdefault(self.stream, set()).update(self.indices.tolist())

    spied(monkeypatch, Loader, "batch", note)
    ag.search(SPACE, ag.recipes.gaea(), DATA, **SETTINGS)
    assert len(drawn["held-out"]) == 10
    assert not drawn["held-out"] & (drawn["weights"] | drawn["architecture"])
    assert len(drawn["weights"]) == 90
    assert drawn["judge"] == drawn["held-out"]
    labels = DATA.labels[sorted(drawn["held-out"])]
    assert labels.bincount().tolist() == [1] * 10


def test_a_bilevel_search_measures_on_images_of_the_architecture() -> None:
    setup = experiment_of(SPACE, ag.recipes.darts(), DATA, SearchConfig(**SETTINGS))
    assert setup.held_out_loader is not None
    held, own = (set(loader.indices.tolist()) for loader in (setup.held_out_loader, setup.arch_loader))
    assert len(held) == 10
    assert held < own
    assert len(setup.weight_loader.indices) == len(own) == 50


def test_the_held_out_accuracy_is_that_of_the_mixture_at_the_end_of_the_epoch() -> None:
    states: list[Any] = []
    look = on(EpochFinished, lambda event: states.append((event.record, dict(event.state.alpha), event.state.supernet)))
    method = ag.recipes.gaea()
    ag.search(SPACE, method, DATA, **{**SETTINGS, "epochs": 1}, callbacks=look)
    setup = experiment_of(SPACE, method, DATA, SearchConfig(**SETTINGS))
    (record, alpha, supernet), loader = states[0], setup.held_out_loader
    assert loader is not None
    batch = loader.batch(0)
    assert len(batch.targets) == 10
    logits = supernet(batch.inputs, expand_to_cells(setup.blocks, alpha))
    assert record["heldout_loss"] == pytest.approx(F.cross_entropy(logits, batch.targets).item(), rel=1e-5)
    assert record["heldout_accuracy"] == pytest.approx(100 * (logits.argmax(1) == batch.targets).double().mean().item())


def test_nothing_is_held_out_on_request() -> None:
    result = ag.search(SPACE, ag.recipes.gaea(), DATA, held_out=0, **SETTINGS)
    assert not any(name.startswith("heldout") for name in result.history[0])
    assert (
        len(experiment_of(SPACE, ag.recipes.gaea(), DATA, SearchConfig(held_out=0, **SETTINGS)).weight_loader.indices)
        == 100
    )


@pytest.mark.parametrize("share", [-0.1, 1.0, float("nan")])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(UserError, match=r"held_out is .*; it must be a number from 0 to less than 1"):
        ag.search(SPACE, ag.recipes.gaea(), DATA, held_out=share, **SETTINGS)
