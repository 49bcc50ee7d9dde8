"""Single-level search: both on all the data, in turn, at once or at random; and warm-up."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
import torch.nn.functional as F
from experiments import experiment_of
from listening import Trace, listening
from same_bits import assert_same, killed_and_resumed, stopping_at
from spying import spied
from tiny_space import Tiny
from torch import Tensor

import archgrad as ag
from archgrad.config import SearchConfig
from archgrad.discretizers import BestSampled
from archgrad.errors import SearchInterrupted, UserError
from archgrad.hypergradients import Neumann
from archgrad.loop import SearchResult
from archgrad.loop.loaders import StepBatches
from archgrad.loop.steps import Stepper
from archgrad.regularizers import OuterStep, Regularizer, WeightStep
from archgrad.training.schedule import Level, Schedule, Updates

DATA = ag.data.digits(limit=64)
SPACE = Tiny(channels=2, cells_per_stage=1)
LEVELS: list[tuple[Level, Updates]] = [
    ("bilevel", "alternate"),
    ("single", "alternate"),
    ("single", "simultaneous"),
    ("single", "random"),
]


def single(updates: Updates = "alternate", base: ag.Method | None = None, **settings: Any) -> ag.Method:
    return replace(base or ag.recipes.gaea(), schedule=Schedule(level="single", updates=updates, **settings))


def found(method: ag.Method, **settings: Any) -> SearchResult:
    return ag.search(SPACE, method, DATA, **{"epochs": 2, "batch_size": 16, "seed": 1, "held_out": 0, **settings})


@pytest.mark.parametrize("base", [ag.recipes.gaea(), ag.recipes.darts()], ids=lambda method: method.name)
def test_a_simultaneous_step_takes_both_gradients_at_one_point(base: ag.Method) -> None:
    method, trace = single("simultaneous", base), Trace()
    training = replace(SPACE.weights, batch_size=32, epochs=1)
    setup = experiment_of(SPACE, method, DATA, SearchConfig(seed=1, weights=training, held_out=0))
    ag.search(SPACE, method, DATA, seed=1, weights=training, held_out=0, callbacks=listening(trace), alpha_budget="off")
    network, alpha = trace.networks[0], {n: v.clone().requires_grad_() for n, v in trace.alphas[0].items()}
    batch = setup.weight_loader.batch(0)
    p = alpha["cell"] if base.name == "gaea" else alpha["cell"].softmax(-1)
    F.cross_entropy(network(batch.inputs, {"cell": p.expand(3, -1, -1)}), batch.targets).backward()
    optimizer = method.arch_optimizer
    slope = alpha["cell"].grad
    assert slope is not None
    plain = {name: value.detach() for name, value in alpha.items()}
    expected, _ = optimizer.step(plain, {"cell": slope}, optimizer.init(plain, 2))
    torch.testing.assert_close(trace.alphas[1]["cell"], expected["cell"], rtol=1e-5, atol=1e-7)
    descended = torch.optim.SGD(
        network.parameters(), training.lr, training.momentum, weight_decay=training.weight_decay, nesterov=True
    )
    torch.nn.utils.clip_grad_norm_(network.parameters(), training.clip)
    descended.step()
    for one, other in zip(network.parameters(), trace.networks[1].parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def test_simultaneous_updates_run_the_supernet_once_per_step(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, counts = spied(monkeypatch, ag.supernet.Supernet, "forward", lambda *args, **settings: 1), {}
    for updates in ("alternate", "simultaneous"):
        calls.clear()
        found(single(updates), standard_callbacks=False)  # type: ignore[arg-type]
        counts[updates] = len(calls)
    assert counts == {"alternate": 16, "simultaneous": 8}


@pytest.mark.parametrize(("level", "updates"), LEVELS)
def test_data_and_moves_are_those_of_the_level(level: Level, updates: Updates, monkeypatch: pytest.MonkeyPatch) -> None:
    happened: list[tuple[str, int]] = []
    for name in ("architecture_step", "weight_step", "joint_step"):

        def note(self: Stepper, state: Any, *given: Any, name: str = name) -> None:
            happened.append((name, state.index))

        spied(monkeypatch, Stepper, name, note)
    method = replace(ag.recipes.gaea(), schedule=Schedule(level=level, updates=updates, warmup_epochs=1))
    setup = experiment_of(SPACE, method, DATA, SearchConfig(batch_size=16, held_out=0))
    found(method, seed=0)
    images = len(setup.weight_loader.indices), len(setup.arch_loader.indices)
    assert images == ((32, 32) if level == "bilevel" else (64, 64))
    steps = setup.weight_loader.steps
    assert happened[:steps] == [("weight_step", index) for index in range(steps)]
    names = {
        ("bilevel", "alternate"): ["architecture_step", "weight_step"],
        ("single", "alternate"): ["architecture_step", "weight_step"],
        ("single", "simultaneous"): ["joint_step"],
    }.get((level, updates))
    for index in range(steps, 2 * steps):
        taken = [name for name, at in happened if at == index]
        assert taken == names if names else taken in (["architecture_step"], ["weight_step"])
    assert setup.weights.epochs == 25
    if updates == "random":
        assert 0.3 * 24 * steps < setup.arch_steps < 0.7 * 24 * steps
    else:
        assert setup.arch_steps == 24 * steps


EDGES, NODES = (
    Tiny(channels=4, cells_per_stage=1),
    ag.spaces.NASBench1Shot1(number=3, channels=4, cells=3),
)
STOPPED = ["xnas", "drnas", "gdas", "gaea-gdas", "snas", "pc-darts", "gaea-pc-darts", "random-nas", "darts-erm", "gaea"]


@pytest.mark.usefixtures("_trusted_differences")
@pytest.mark.parametrize(
    ("recipe", "space"),
    [
        *(pytest.param(recipe, EDGES, id=recipe) for recipe in STOPPED),
        *(pytest.param(recipe, NODES, id=f"{recipe}-nodes") for recipe in ("gdas", "gaea-pc-darts", "darts-2nd")),
    ],
)
def test_a_method_stopped_within_an_epoch_goes_on_to_the_same_bits(
    recipe: str, space: ag.spaces.SearchSpace, tmp_path: Path
) -> None:
    method = ag.recipes.named(recipe)
    method = replace(method, schedule=replace(method.schedule, warmup_epochs=0))
    if isinstance(method.discretizer, BestSampled):
        method = replace(method, discretizer=replace(method.discretizer, samples=3))
    batch = 16 if method.schedule.level == "bilevel" else 32  # two steps in an epoch
    settings: dict[str, Any] = {"epochs": 2, "batch_size": batch, "seed": 2, "held_out": 0}
    settings["standard_callbacks"] = False
    whole = ag.search(space, method, DATA, **settings)
    with pytest.raises(SearchInterrupted, match="continue with"):
        ag.search(space, method, DATA, out=tmp_path, interruptible=True, callbacks=stopping_at(3), **settings)
    resumed = ag.search(space, method, DATA, out=tmp_path, resume=True, **settings)
    assert_same(whole, resumed)


@pytest.mark.parametrize(("level", "updates"), LEVELS)
def test_a_stopped_search_of_any_level_goes_on_to_the_same_bits(level: Level, updates: Updates, tmp_path: Path) -> None:
    method = replace(ag.recipes.gaea(), schedule=Schedule(level=level, updates=updates))
    settings = {"epochs": 3, "batch_size": 16 if level == "bilevel" else 32}  # two steps in an epoch
    killed_and_resumed(partial(found, method, **settings), tmp_path, 5)


class Pull(Regularizer):
    """Adds a known slope to α, and reads what a weight step shows."""

    needs_mixture_gradient: ClassVar[bool] = True

    def __init__(self) -> None:
        self.shown: list[dict[str, Tensor]] = []

    def outer_term(self, step: OuterStep) -> Tensor:
        return 100 * step.alpha["cell"][0, 0] + 0 * step.probabilities["cell"].sum() + 0 * step.mixture["cell"].sum()

    def weight_gradient(self, step: WeightStep) -> None:
        assert step.mixture_gradient is not None
        self.shown.append(step.mixture_gradient)


def test_regularizers_take_part_in_a_simultaneous_step() -> None:
    pull = Pull()
    method = replace(single("simultaneous"), regularizers=(pull,))
    plain = found(single("simultaneous"), epochs=1, alpha_budget="off")
    pulled = found(method, epochs=1, alpha_budget="off")
    assert pulled.alpha["cell"][0, 0] < 1e-3 < plain.alpha["cell"][0, 0]
    assert [slope["cell"].shape for slope in pull.shown] == [(3, 3, 3)] * 4
    assert all(slope["cell"].abs().sum() > 0 for slope in pull.shown)


@pytest.mark.parametrize(
    ("schedule", "split", "sentence"),
    [
        (Schedule(), "none", "the split is none, but a bilevel search .* schedule.level=single"),
        (Schedule(level="single"), (0.5, 0.5), "the split is 0.5:0.5, but a single-level search .* on all the data"),
        (Schedule(level="single"), "0.4:0.4", "leave it out, or set schedule.level=bilevel"),
        (Schedule(warmup_epochs=2), None, "does not move in the first 2 epochs .* has only 2; give more epochs"),
    ],
)
def test_what_contradicts_the_schedule_is_refused(schedule: Schedule, split: Any, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        found(replace(ag.recipes.gaea(), schedule=schedule), split=split)


@pytest.mark.parametrize("seed", range(4))
def test_a_coin_that_falls_on_one_side_only_is_refused(seed: int) -> None:
    with pytest.raises(UserError, match=r"has 1 steps, and with this seed all of them would move the (arch|weights)"):
        found(single("random"), epochs=1, batch_size=64, seed=seed)


def test_simultaneous_updates_move_both_by_one_loss() -> None:
    record = found(single("simultaneous")).history[-1]
    assert (record["arch_loss"], record["arch_accuracy"]) == (record["train_loss"], record["train_accuracy"])


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"schedule": Schedule(warmup_epochs=2)}, "schedule.warmup_epochs is 2, but Fixed never moves"),
        ({"schedule": Schedule(inner_steps=2)}, "schedule.inner_steps is 2, but Fixed never moves"),
        ({"schedule": Schedule(level="single", updates="random")}, "schedule.updates is 'random', but Fixed never"),
        (
            {"regularizers": (ag.regularizers.EntropyTerm(),)},
            "EntropyTerm adds to the loss of the architecture, but Fi",
        ),
        ({"arch_optimizer": ag.arch_optimizers.Adam()}, "Uniform does not depend on its architecture parameters"),
    ],
)
def test_what_a_search_without_motion_would_ignore_is_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        replace(ag.recipes.random_nas(), **changes)


@pytest.mark.parametrize("recipe", ["gdas", "xnas", "random-nas"])
def test_what_changes_from_step_to_step_is_not_compiled(recipe: str) -> None:
    with pytest.raises(UserError, match="computes different operations in each step"):
        found(ag.recipes.named(recipe), compile=True)


def test_only_the_gradient_of_first_order_is_simultaneous() -> None:
    with pytest.raises(UserError, match="which gives the first-order gradient, not Neumann"):
        replace(single("simultaneous"), hypergradient=Neumann(2))


def test_a_search_that_moves_no_architecture_draws_no_batch_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StepBatches, "outer", lambda self: pytest.fail("drawn"))
    result = found(ag.recipes.random_nas())
    assert all(not value.any() for value in result.alpha.values())
    assert "arch_loss" not in result.history[-1]
    with pytest.raises(UserError, match="Fixed never moves the architecture, so Neumann would have nothing to do"):
        replace(ag.recipes.random_nas(), hypergradient=Neumann(2))
