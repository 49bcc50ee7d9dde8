"""Operation-level early stopping: a plain re-implementation, weights that rest, its cost, resuming."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
import torch.nn.functional as F
from experiments import experiment_of
from same_bits import killed_and_resumed
from spying import spied
from tiny_space import Tiny
from torch import Tensor
from torch.func import functional_call

import archgrad as ag
from archgrad.arch_optimizers import Fixed
from archgrad.config import SearchConfig
from archgrad.data import Batch
from archgrad.errors import UserError
from archgrad.hypergradients import SOBA, Unrolled
from archgrad.loop.losses import SupernetLosses
from archgrad.loop.state import SearchState
from archgrad.loop.steps import Stepper
from archgrad.regularizers import OperationStopping, WeightStep
from archgrad.training.schedule import Schedule

DATA = ag.data.digits(limit=96)
SPACE = Tiny(channels=2, cells_per_stage=1)
CONVOLUTIONS = [f"body.layers.{cell}.edges.{edge}.1" for cell in (0, 2, 4) for edge in range(3)]


def method_of(rule: OperationStopping) -> ag.Method:
    return replace(ag.recipes.oles(), regularizers=(rule,))


def begun(method: ag.Method) -> tuple[Any, SearchState, Stepper]:
    torch.manual_seed(0)
    experiment = experiment_of(SPACE, method, DATA, SearchConfig(epochs=2, batch_size=12, held_out=0, seed=0))
    state = experiment.initial_state()
    return experiment, state, experiment.stepper(state)


def gradient_by_hand(state: SearchState, batch: Batch) -> dict[str, Tensor]:
    """The gradient of the cross entropy at the present weights and α, in float64."""
    supernet = copy.deepcopy(state.supernet).double()
    weights = {name: value.double().requires_grad_() for name, value in supernet.named_parameters()}
    rows = torch.softmax(state.alpha["cell"].double(), -1)
    logits = functional_call(supernet, weights, (batch.inputs.double(), {"cell": rows.expand(3, -1, -1)}))
    found = torch.autograd.grad(F.cross_entropy(logits, batch.targets), list(weights.values()))
    return dict(zip(weights, found, strict=True))


def cosine_by_hand(operation: str, first: dict[str, Tensor], second: dict[str, Tensor], against: str) -> float:
    g, h = (
        torch.cat([v.flatten() for n, v in one.items() if n.startswith(operation + ".")]) for one in (first, second)
    )
    h = g + h if against == "sum" else h
    return float((g * h).sum() / (g.square().sum() * h.square().sum()).sqrt())


@pytest.mark.parametrize(("against", "threshold"), [("sum", 0.69), ("validation", 0.1)])
def test_operations_rest_when_a_plain_reimplementation_says_so(
    against: Literal["validation", "sum"], threshold: float
) -> None:
    experiment, state, stepper = begun(method_of(OperationStopping(threshold, 2, against)))
    assert list(state.operations) == CONVOLUTIONS
    windows: dict[str, list[float]] = {name: [] for name in CONVOLUTIONS}
    stopped: list[str] = []
    counts = []
    for index in range(8):
        batches = experiment.step_batches(index)
        validation = gradient_by_hand(state, batches.outer())
        found = stepper.architecture_step(state, batches).weight_gradient
        training = gradient_by_hand(state, batches.inner(0))  # α has moved, the weights have not
        for name in [name for name in CONVOLUTIONS if name not in stopped]:
            windows[name].append(cosine_by_hand(name, training, validation, against))
            if len(windows[name]) == 2:
                stopped += [name] if sum(windows[name]) / 2 < threshold else []
                windows[name] = []
        before = {name: value.detach().clone() for name, value in state.weights.items()}
        stepper.weight_step(state, batches.inner(0), found)
        state.step += 1
        assert sorted(state.resting) == sorted(stopped)
        for name, value in state.weights.items():
            assert torch.equal(value, before[name]) == name.startswith(tuple(f"{one}." for one in stopped))
        counts.append(len(stopped))
    assert counts[0] == 0
    assert len(set(counts)) > 2  # not all at once
    assert counts[-1] < len(CONVOLUTIONS)


def test_resting_weights_keep_their_momentum_and_have_no_gradient() -> None:
    experiment, state, stepper = begun(method_of(OperationStopping(threshold=1.0, iterations=2)))
    assert stepper.weights.momentum
    assert stepper.weights.weight_decay
    buffers = []
    for index in range(4):
        batches = experiment.step_batches(index)
        found = stepper.architecture_step(state, batches).weight_gradient
        stepper.weight_step(state, batches.inner(0), found)
        state.step += 1
        own = state.weights[state.operations[CONVOLUTIONS[0]][0]]
        buffers.append(state.optimizer.state[own]["momentum_buffer"].clone())
        assert own.grad is None
        assert own.requires_grad == (index == 0)
    assert list(state.resting) == CONVOLUTIONS
    assert torch.equal(buffers[0], buffers[3])
    assert found is not None
    assert not any(name.startswith(tuple(CONVOLUTIONS)) for name in found)  # nobody would read it


def passes(monkeypatch: pytest.MonkeyPatch, method: ag.Method) -> int:
    """Count the evaluations of a loss in one step of the architecture and one of the weights."""
    experiment, state, stepper = begun(method)
    with monkeypatch.context() as patched:
        calls = spied(patched, SupernetLosses, "_loss", lambda *args: 1)
        batches = experiment.step_batches(0)
        result = stepper.architecture_step(state, batches)
        assert (result.weight_gradient is None) == (not method.regularizers)
        stepper.weight_step(state, batches.inner(0), result.weight_gradient)
    return len(calls)


def test_the_validation_gradient_comes_from_the_pass_of_the_architecture(monkeypatch: pytest.MonkeyPatch) -> None:
    assert passes(monkeypatch, ag.recipes.darts()) == passes(monkeypatch, ag.recipes.oles()) == 2
    ahead = Unrolled()  # it evaluates L2 at other weights, and once more to measure it, which now gives the gradient
    usual, watched = (
        passes(monkeypatch, replace(one, hypergradient=ahead)) for one in (ag.recipes.darts(), ag.recipes.oles())
    )
    assert watched == usual + 1


def test_a_killed_search_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    method = method_of(OperationStopping(0.69, 2))
    settings: dict[str, Any] = {"epochs": 2, "batch_size": 12, "seed": 0, "held_out": 0, "standard_callbacks": False}
    both = killed_and_resumed(partial(ag.search, SPACE, method, DATA, **settings), tmp_path)
    first, second = (one.stages.runs[-1][1] for one in both)
    assert 0 < len(first.resting) < len(CONVOLUTIONS)
    assert first.resting == second.resting
    assert all(
        torch.equal(value, second.watched["OperationStopping"][name])
        for name, value in first.watched["OperationStopping"].items()
    )


def test_a_state_from_before_a_stop_lets_the_weights_learn_again() -> None:
    _, state, _ = begun(ag.recipes.oles())
    saved = copy.deepcopy(state.tensors())
    state.rest(CONVOLUTIONS[:2])
    assert sum(not weight.requires_grad for weight in state.weights.values()) == 2
    again = copy.deepcopy(state.tensors())
    state.restore(saved)
    assert all(weight.requires_grad for weight in state.weights.values())
    state.restore(again)
    assert state.resting == tuple(CONVOLUTIONS[:2])
    assert sum(not weight.requires_grad for weight in state.weights.values()) == 2


def test_a_step_without_a_gradient_does_not_count() -> None:
    rule = OperationStopping(threshold=1.0, iterations=1)
    gradient = {"a": torch.ones(2), "b": torch.zeros(2)}
    weights = {name: torch.zeros(2) for name in "abc"}
    step = WeightStep(
        lambda w, p: torch.zeros(()), (), weights, torch.zeros(()), gradient, {}, None, 0.0, 0,
        outer_gradient={"a": torch.tensor([1.0, 0.0]), "b": torch.ones(2)},
        operations={name: (name,) for name in "abc"},
    )  # fmt: skip
    kept, stopped = rule.watch(step, rule.init("abc"))
    assert stopped == ["a"]
    assert kept["count"].tolist() == [0, 0, 0]
    kept, stopped = replace(rule, iterations=2).watch(step, rule.init("abc"))
    assert (stopped, kept["count"].tolist()) == ([], [1, 0, 0])
    assert kept["sum"][0] == pytest.approx(3 / 10**0.5)


@pytest.mark.parametrize(
    "changed",
    [
        {"schedule": Schedule(level="single")},
        {"schedule": Schedule(level="single", updates="simultaneous")},
        {"arch_optimizer": Fixed()},
    ],
)
def test_a_search_without_validation_gradients_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=r"OperationStopping compares the gradients .* schedule.level=bilevel"):
        replace(ag.recipes.oles(), **changed)


def test_a_hypergradient_with_a_state_of_the_weights_is_refused() -> None:
    with pytest.raises(UserError, match=r"OperationStopping stops .* SOBA keeps a state"):
        begun(replace(ag.recipes.oles(), hypergradient=SOBA()))


def test_a_space_without_mixed_cells_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archgrad.loop.state.operation_weights", lambda supernet: {})
    with pytest.raises(UserError, match=r"OperationStopping watches .* 'tiny' has none in a MixedCell"):
        begun(ag.recipes.oles())
