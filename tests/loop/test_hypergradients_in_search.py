"""Every published gradient in the one loop."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from experiments import experiment_of
from same_bits import assert_same, dying_at
from spying import spied
from tiny_space import Tiny
from varied_spaces import small_space

import archgrad as ag
from archgrad.callbacks import InnerCurvature
from archgrad.config import SearchConfig
from archgrad.data import Loader
from archgrad.errors import UserError
from archgrad.hypergradients import Hypergradient, Neumann, TruncatedReverse, Unrolled
from archgrad.loop import SearchResult
from archgrad.loop.experiment import Experiment
from archgrad.loop.loaders import StepBatches
from archgrad.loop.steps import Stepper

DATA = ag.data.digits(limit=96)


def small(name: str = "tiny") -> ag.spaces.SearchSpace:
    return Tiny(channels=2, cells_per_stage=1) if name == "tiny" else small_space(name, channels=2)


def found(method: ag.Method, name: str = "tiny", **settings: Any) -> SearchResult:
    return ag.search(small(name), method, DATA, **{"epochs": 2, "batch_size": 24, "seed": 0, "held_out": 0, **settings})


@pytest.mark.parametrize("recipe", ["darts-2nd", "idarts", "amended"])
def test_recipes_take_the_cheapest_products_that_are_true_enough(recipe: str) -> None:
    """tests/hypergradients proves their cosine to the exact ones, benchmarks/hypergradients.py measures their cost."""
    assert ag.recipes.named(recipe).hypergradient.products == "forward"


def test_the_architecture_moves_once_for_every_few_steps_of_the_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    moved = spied(monkeypatch, Stepper, "architecture_step", lambda self, state, batches: state.index)
    result = found(ag.recipes.idarts(inner_steps=3), batch_size=12, epochs=2)
    assert moved == list(range(2, 24, 3))  # four batches of 12 in an epoch, as in DARTS, and three weight steps each
    assert "arch_loss" in result.history[0]


def test_each_batch_of_the_architecture_serves_once_in_an_epoch_however_many_inner_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn: dict[str, list[int]] = {"weights": [], "architecture": []}
    spied(monkeypatch, Loader, "batch", lambda self, index: drawn[self.stream].append(index))
    found(ag.recipes.idarts(inner_steps=3), batch_size=12, epochs=2, standard_callbacks=False, on_collapse="ignore")
    assert drawn == {"weights": list(range(24)), "architecture": list(range(8))}


@pytest.mark.parametrize("method", [ag.recipes.idarts(inner_steps=2), ag.recipes.darts(order=2)], ids=lambda m: m.name)
def test_a_stopped_search_goes_on_to_the_same_bits(method: ag.Method, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"epochs": 2, "batch_size": 16}
    settings |= {"standard_callbacks": False}
    curvature = InnerCurvature(0.01, every=3, steps=2)
    whole = found(method, callbacks=[curvature], **settings)
    with pytest.raises(KeyboardInterrupt):
        found(method, out=tmp_path, callbacks=[curvature, *dying_at()], **settings)
    resumed = found(method, out=tmp_path, resume=True, callbacks=[curvature], **settings)
    assert_same(whole, resumed)
    assert all("lambda_max" in record for record in whole.history)


def test_a_diverging_series_is_warned_of_once_in_a_run(caplog: pytest.LogCaptureFixture) -> None:
    method = ag.recipes.idarts(inner_steps=1, lr=1e4)
    for _ in range(2):
        found(method, standard_callbacks=False, callbacks=[InnerCurvature(1e4, every=1, steps=3)], epochs=1)
    assert [("cannot converge" in message) for message in caplog.messages] == [True, True]


def test_a_series_is_watched_by_default() -> None:
    record = found(ag.recipes.idarts(inner_steps=1), epochs=1).history[0]
    assert record["contraction"] == pytest.approx(
        max(abs(1 - 0.01 * record["lambda_max"]), abs(1 - 0.01 * record["lambda_min"]))
    )


def setup(method: ag.Method, name: str = "nasbench201", **settings: Any) -> Experiment:
    return experiment_of(small(name), method, DATA, SearchConfig(**{"epochs": 2, "batch_size": 24, **settings}))


def after_two_steps(made: Experiment) -> tuple[Any, Stepper]:
    torch.manual_seed(0)
    state = made.initial_state()
    stepper = made.stepper(state)
    for _ in range(2):
        stepper.weight_step(state, made.weight_loader.batch(state.index))
        state.step += 1
    return state, stepper


ADAM: dict[str, Any] = {"lr": 1e-3, "lr_min": 0.0, "optimizer_settings": ("betas=0.8", "0.95", "eps=1e-4")}


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw"])
def test_the_gradient_of_second_order_goes_through_the_step_that_the_weights_then_take(optimizer: str) -> None:
    """The virtual step of Unrolled is the real one where that is not clipped."""
    own = {"optimizer": optimizer, **({} if optimizer == "sgd" else ADAM)}
    training = replace(small().weights, clip=1e9, epochs=2, batch_size=24, **own)
    made = setup(replace(ag.recipes.darts(), hypergradient=Unrolled()), "tiny", weights=training, batch_size=None)
    state, stepper = after_two_steps(made)
    drawn = StepBatches(made.weight_loader, made.arch_loader, state.index)
    batches = ag.hypergradients.Batches([drawn.inner(0)])
    with stepper.bilevel_step(state).at(state.alpha, batches, drawn.outer()) as point:
        ahead, _ = Unrolled()._after(point, 1)
    stepper.weight_step(state, drawn.inner(0))
    for name, weight in state.weights.items():
        torch.testing.assert_close(ahead[name].detach(), weight.detach(), rtol=1e-5, atol=1e-6)


def test_reverse_mode_reads_the_batches_of_the_coming_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    made = setup(replace(ag.recipes.darts(), hypergradient=TruncatedReverse(3, 3)))
    state, stepper = after_two_steps(made)
    asked = spied(monkeypatch, StepBatches, "inner", lambda self, step: step)
    stepper.architecture_step(state, StepBatches(made.weight_loader, made.arch_loader, state.index))
    assert asked == [0, 1, 2]


def test_weights_that_a_user_froze_are_constants() -> None:
    made = setup(ag.recipes.amended())
    state, stepper = after_two_steps(made)
    frozen = state.supernet.body.classifier.weight.requires_grad_(False)
    before = frozen.clone()
    step = stepper.bilevel_step(state)
    assert not any(weight is frozen for weight in step.weights.values())
    stepper.architecture_step(state, StepBatches(made.weight_loader, made.arch_loader, state.index))
    assert torch.equal(frozen, before)


@pytest.mark.parametrize("part", [Unrolled(), Neumann(1)], ids=lambda part: type(part).__name__)
def test_second_derivatives_are_not_compiled(part: Hypergradient) -> None:
    with pytest.raises(UserError, match=r"which torch\.compile does not support"):
        found(replace(ag.recipes.darts(), hypergradient=part), compile=True)


def test_the_auxiliary_head_is_trained() -> None:
    made = setup(ag.recipes.darts(), "amended-a1")
    torch.manual_seed(0)
    state = made.initial_state()
    before = {name: value.clone() for name, value in state.supernet.named_parameters() if "auxiliary" in name}
    made.stepper(state).weight_step(state, made.weight_loader.batch(0))
    after = dict(state.supernet.named_parameters())
    assert before
    assert all(not torch.equal(value, after[name]) for name, value in before.items())


@pytest.mark.parametrize("name", ["nasbench201", "amended-a2"])
def test_drop_path_grows_with_the_epochs_and_spares_validation(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rates = spied(monkeypatch, ag.supernet.Supernet, "forward", lambda *args, **extra: extra.get("drop_path", 0.0))
    method = replace(ag.recipes.darts(), supernet=ag.SupernetOptions(drop_path=0.3))
    ag.search(small(name), method, DATA, epochs=3, batch_size=48, split="0.5:0.5", held_out=0, standard_callbacks=False)
    architecture, weights = rates[::2], rates[1::2]
    assert set(architecture) == {0.0}
    assert weights == pytest.approx([0.0, 0.1, 0.2])


def test_an_auxiliary_head_needs_two_images() -> None:
    with pytest.raises(UserError, match="needs at least 2 images in a batch"):
        found(ag.recipes.darts(), "amended-a1", batch_size=1)


def test_a_complete_search_stands_at_its_last_learning_rate() -> None:
    made = setup(ag.recipes.darts())
    state = made.initial_state()
    state.epoch = state.epochs
    assert made.stepper(state).bilevel_step(state).descent.lr == made.weights.lr_at(state.epochs - 1)


class Counting(ag.operations.Operation):
    """Has statistics of its own."""

    def __init__(self, site: ag.operations.Site) -> None:
        super().__init__()
        self.norm = torch.nn.BatchNorm2d(site.channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x)


class WithBuffers(ag.spaces.StagedSpace):
    name = "with-buffers"
    nodes = 2
    operations = {"count": Counting, "skip": lambda site: ag.operations.Identity()}  # noqa: RUF012


@pytest.mark.parametrize("hypergradient", [Unrolled(), Neumann(2, 0.01, products="forward")], ids=["exact", "forward"])
def test_an_architecture_step_leaves_buffers_as_they_were(hypergradient: Hypergradient) -> None:
    method = replace(ag.recipes.darts(), hypergradient=hypergradient)
    made = experiment_of(
        WithBuffers(channels=2, cells_per_stage=1), method, DATA, SearchConfig(epochs=2, batch_size=24)
    )
    state, stepper = after_two_steps(made)
    before = {name: buffer.clone() for name, buffer in state.supernet.named_buffers()}
    stepper.architecture_step(state, StepBatches(made.weight_loader, made.arch_loader, state.index))
    assert before
    assert all(torch.equal(buffer, before[name]) for name, buffer in state.supernet.named_buffers())


def test_an_architecture_gradient_that_is_not_finite_names_its_knobs() -> None:
    method = ag.recipes.amended(eta=1e38)
    with pytest.raises(ag.DivergedError, match=r"gradient by Amended of 'cell' became not finite .*; lower .*eta"):
        found(method)
