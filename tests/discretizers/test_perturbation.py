"""Perturbation: what it removes, what it keeps, when it tunes, and that a search by it survives."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from experiments import experiment_of
from listening import DecisionMade, EpochFinished, Event, StepFinished, listening
from tiny_space import noise
from torch import Tensor

import archgrad as ag
from archgrad.config import SearchConfig
from archgrad.discretizers import Argmax, Perturbation, SupernetEvaluation, Tuning
from archgrad.errors import SearchInterrupted, UserError
from archgrad.loop import SearchResult
from archgrad.loop.experiment import Experiment
from archgrad.loop.measuring import supernet_evaluation
from archgrad.loop.state import SearchState
from archgrad.recipes import darts_pt, lambda_darts
from archgrad.relaxations import expand_to_cells
from archgrad.spaces import DARTS, Genotype, NASBench201, SearchSpace

Rows = dict[str, Tensor]


def probabilities_of(space: SearchSpace, seed: int, options: ag.SupernetOptions | None = None) -> Rows:
    generator, blocks = torch.Generator().manual_seed(seed), space.searched_blocks(options)
    logits = {block.name: torch.randn(block.shape, generator=generator, dtype=torch.float64) for block in blocks}
    return {b.name: logits[b.name].masked_fill(~b.mask, -torch.inf).softmax(-1) for b in blocks}


@dataclass
class Additive:
    """An evaluation to whom each operation is worth its weight times a number that is known."""

    worth: Rows
    seed: int = 0
    measured: list[Rows] = field(default_factory=list)
    tuned: list[Tuning] = field(default_factory=list)
    moved: float = 0.0
    reported: list[tuple[str, int, int]] = field(default_factory=list)

    def accuracy(self, mixture: Mapping[str, Tensor], batch: int) -> float:
        assert all(bool((value == value[:1]).all()) for value in mixture.values()), "all cells have the same"
        rows = {name: value[0].clone() for name, value in mixture.items()}
        self.measured.append(rows)
        return float(sum((rows[name] * worth).sum() for name, worth in self.worth.items()))

    def tune(self, tuning: Tuning) -> Rows:
        """Keep what was asked for; every weight moves a little, those decided too."""
        copies = [{name: value.clone() for name, value in rows.items()} for rows in (tuning.weights, tuning.decided)]
        self.tuned.append(Tuning(*copies, tuning.epochs, tuning.rate))
        return {name: value * (1 - self.moved) for name, value in tuning.weights.items()}

    @property
    def evaluation(self) -> SupernetEvaluation:
        draws = torch.Generator().manual_seed(self.seed)
        return SupernetEvaluation(self.accuracy, draws, 1, self.tune, lambda *what: self.reported.append(what))


def expected(space: SearchSpace, probabilities: Rows, worth: Rows) -> Genotype:
    """Say what an additive evaluation misses most, in any order: the largest p·u, then the largest u."""
    selection = {}
    for block in space.blocks:
        best = []
        for index, row in enumerate(block.rows):
            loss = probabilities[block.name][index] * worth[block.name][index]
            allowed = [choice for choice, name in enumerate(row.choices) if name not in block.excluded]
            best.append(max(allowed, key=lambda choice: float(loss[choice])))
        kept = list(range(len(block.rows)))
        if block.keep is not None:
            kept = []
            for target in block.targets:
                rows = [index for index, row in enumerate(block.rows) if row.target == target]
                rows.sort(key=lambda row: -float(worth[block.name][row, best[row]]))
                kept += rows[: block.keep]
        selection[block.name] = [(row, best[row]) for row in sorted(kept)]
    return space.genotype(selection)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("space", [NASBench201(), DARTS(cells=3)], ids=["nasbench201", "darts"])
def test_what_is_missed_most_is_kept(space: SearchSpace, seed: int) -> None:
    probabilities, worth = probabilities_of(space, seed), probabilities_of(space, seed + 100)
    found = Perturbation().select(space, probabilities, Additive(worth, seed).evaluation)
    assert found == expected(space, probabilities, worth)
    assert found != Argmax().select(space, probabilities)


def test_among_equals_the_stronger_and_then_the_first_is_kept() -> None:
    space, darts_like = NASBench201(cells_per_stage=1), DARTS(cells=3)
    rows = torch.tensor([[0.1, 0.2, 0.4, 0.2, 0.1], [0.2, 0.2, 0.2, 0.2, 0.2]] * 3)
    found = Perturbation().select(space, {"cell": rows}, Additive({"cell": torch.zeros(6, 5)}).evaluation)
    assert [decision.choice for decision in found["cell"]] == ["nor_conv_1x1", "none"] * 3
    for seed in range(3):  # where nothing matters it is the derivation by probabilities
        probabilities = probabilities_of(darts_like, seed)
        nothing = {name: torch.zeros_like(value) for name, value in probabilities.items()}
        found = Perturbation().select(darts_like, probabilities, Additive(nothing, seed).evaluation)
        assert found == Argmax().select(darts_like, probabilities)


def test_edge_weights_go_with_their_edges() -> None:
    space = DARTS(cells=3)
    probabilities = probabilities_of(space, 1, ag.SupernetOptions(edge_weights=True))
    worth = {name: torch.zeros_like(value) for name, value in probabilities.items()}
    for block in space.blocks:  # only the edges matter, and the weakest most
        worth[block.edges.name] = 1 / probabilities[block.edges.name].clamp(min=1e-6) ** 2 * block.edges.mask
    found = Perturbation().select(space, probabilities, Additive(worth).evaluation)
    for block in space.blocks:
        for number, row in enumerate(block.edges.rows):
            weakest = probabilities[block.edges.name][number, : len(row.choices)].argsort()[:2].tolist()
            sources = {decision.source for decision in found[block.name].inputs_of(row.target)}
            assert sources == {int(row.choices[choice]) for choice in weakest}


def test_a_removed_operation_has_no_weight_and_the_others_keep_theirs() -> None:
    space = NASBench201(cells_per_stage=1)
    probabilities = probabilities_of(space, 0)
    additive = Additive(probabilities_of(space, 5))
    Perturbation(tune_epochs=0).select(space, probabilities, additive.evaluation)
    assert len(additive.measured) == 6 * 5
    first = additive.measured[:5]
    changed = {tuple(place) for rows in first for place in (rows["cell"] != probabilities["cell"]).nonzero().tolist()}
    (row,) = {place[0] for place in changed}
    assert changed == {(row, choice) for choice in range(5)}
    for choice, rows in enumerate(first):
        only = probabilities["cell"].clone()
        only[row, choice] = 0.0
        assert torch.equal(rows["cell"], only)


@pytest.mark.parametrize("seed", range(3))
def test_it_tunes_between_decisions_with_what_is_decided(seed: int) -> None:
    space = DARTS(cells=3)
    probabilities = probabilities_of(space, 2)
    additive = Additive(probabilities_of(space, 7), seed)
    found = Perturbation(tune_epochs=3).select(space, probabilities, additive.evaluation)
    edges, nodes = 2 * 14, 2 * 3  # the first node has two edges and keeps them
    total = edges + nodes
    assert [(done, all_) for _, done, all_ in additive.reported] == [(n + 1, total) for n in range(total)]
    assert [(tuning.epochs, tuning.rate) for tuning in additive.tuned] == [(3, 0.1)] * (total - 1)
    for number, tuning in enumerate(additive.tuned):
        rows = tuning.weights
        assert sum(int(marked.sum()) for marked in tuning.decided.values()) == min(number + 1, edges)
        decided = sum(int((value.max(-1).values == 1).sum() + (value.sum(-1) == 0).sum()) for value in rows.values())
        assert decided == min(number + 1, edges)
        untouched = sum(int((value == probabilities[name]).all(-1).sum()) for name, value in rows.items())
        assert untouched == edges - decided
    names = [what for what, _, _ in additive.reported]
    assert sorted(name.split(":")[0] for name in names[:edges]) == sorted(
        f"{block.name} {row.name}" for block in space.blocks for row in block.rows
    )
    assert all(": keeps " in name for name in names[edges:])
    last = {name: value[0].double() for name, value in space.one_hot(found).items()}
    kept = sum(int((additive.tuned[-1].weights[name] != value).any(-1).sum()) for name, value in last.items())
    assert 1 <= kept <= 3  # the edges that the last decision removed


def test_what_is_not_decided_is_where_the_search_has_moved_it() -> None:
    space = NASBench201(cells_per_stage=1)
    probabilities = probabilities_of(space, 2)
    additive = Additive(probabilities_of(space, 7), moved=0.5)
    Perturbation(tune_epochs=1).select(space, probabilities, additive.evaluation)
    for number, tuning in enumerate(additive.tuned):
        decided, weights = tuning.decided["cell"], tuning.weights["cell"]
        assert decided.sum() == number + 1
        assert torch.equal(weights[decided].sum(-1), torch.ones(number + 1, dtype=weights.dtype))
        torch.testing.assert_close(weights[~decided], probabilities["cell"][~decided] * 0.5**number)


def test_nothing_is_tuned_where_no_epochs_are() -> None:
    space = NASBench201(cells_per_stage=1)
    additive = Additive(probabilities_of(space, 1))
    never = replace(additive.evaluation, tune=None)
    Perturbation(tune_epochs=0).select(space, probabilities_of(space, 0), never)
    with pytest.raises(
        UserError, match=r"Perturbation needs a supernet .* an evaluation that can tune, or use discretizers"
    ):
        Perturbation().select(space, probabilities_of(space, 0), never)
    with pytest.raises(UserError, match="Perturbation measures architectures with a supernet"):
        Perturbation(tune_epochs=0).select(space, probabilities_of(space, 0))


@pytest.mark.parametrize(("batches", "asked"), [(None, [0, 1, 2]), (2, [0, 1]), (9, [0, 1, 2])])
def test_accuracies_are_means_over_batches(batches: int | None, asked: list[int]) -> None:
    space, seen = NASBench201(cells_per_stage=1), list[int]()

    def accuracy(mixture: Mapping[str, Tensor], batch: int) -> float:
        seen.append(batch)
        return float((mixture["cell"][0] * torch.tensor([0.0, 9.0, 0.0, 5.0, 0.0])).sum()) * (batch == 0)

    evaluation = SupernetEvaluation(accuracy, torch.Generator(), 3)
    found = Perturbation(0, batches).select(space, {"cell": torch.full((6, 5), 0.2)}, evaluation)
    assert seen == asked * 30
    assert found.count("skip_connect") == 6


def test_between_epochs_it_is_argmax() -> None:
    space = DARTS(cells=3)
    probabilities = probabilities_of(space, 0)
    assert Perturbation().interim(space, probabilities) == Argmax().select(space, probabilities)
    assert Perturbation.once
    assert not Argmax.once


SPACE = NASBench201(channels=2, cells_per_stage=1, exclude=("none", "avg_pool_3x3"))
METHOD = replace(darts_pt(), discretizer=Perturbation(tune_epochs=1, batches=1))


def found(*listeners: Callable[[Event], None], method: ag.Method = METHOD, **settings: Any) -> SearchResult:
    return ag.search(
        SPACE, method, noise(), epochs=2, seed=1, batch_size=8, callbacks=listening(*listeners), **settings
    )


@pytest.fixture(scope="module")
def whole() -> tuple[SearchResult, list[Event]]:
    events: list[Event] = []
    return found(events.append), events


def test_a_search_ends_by_it(whole: tuple[SearchResult, list[Event]]) -> None:
    result, events = whole
    made = [event for event in events if isinstance(event, DecisionMade)]
    assert [(event.done, event.total) for event in made] == [(n, 6) for n in range(1, 7)]
    told = {event.what.removeprefix("cell ").split(": ")[0]: event.what.split(": ")[1] for event in made}
    assert {f"{d.target}<-{d.source}": d.choice for d in result.genotype["cell"]} == told
    assert [type(event) for event in events if isinstance(event, DecisionMade | EpochFinished)] == [
        EpochFinished,
        *[DecisionMade] * 6,
        EpochFinished,
    ]
    assert result.history[-1]["genotype"] == str(result.genotype)
    assert {"mixture_accuracy", "discrete_accuracy"} <= set(result.history[-1])


def test_the_search_keeps_its_own_weights(whole: tuple[SearchResult, list[Event]]) -> None:
    plain = found(method=replace(METHOD, discretizer=Argmax()))
    weights = whole[0].supernet.state_dict()
    assert all(torch.equal(value, weights[name]) for name, value in plain.supernet.state_dict().items())
    assert all(torch.equal(value, whole[0].alpha[name]) for name, value in plain.alpha.items())
    assert plain.history[0]["genotype"] == whole[0].history[0]["genotype"]
    assert plain.history[-1]["mixture_accuracy"] == whole[0].history[-1]["mixture_accuracy"]


def same(a: SearchResult, b: SearchResult) -> bool:
    plain = [[{k: v for k, v in record.items() if k != "seconds"} for record in each.history] for each in (a, b)]
    weights = a.supernet.state_dict(), b.supernet.state_dict()
    return (a.genotype, plain[0]) == (b.genotype, plain[1]) and all(
        torch.equal(value, weights[1][name]) for name, value in weights[0].items()
    )


class AtDecision:
    """Does something when a decision is made, and counts what else happens."""

    def __init__(self, number: int, act: Callable[[], None]) -> None:
        self.number, self.act = number, act
        self.decisions = self.steps = 0

    def __call__(self, event: Event) -> None:
        self.steps += isinstance(event, StepFinished)
        self.decisions += isinstance(event, DecisionMade)
        if isinstance(event, DecisionMade) and event.done == self.number:
            self.act()


def die() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("number", [1, 6])
def test_a_selection_that_is_killed_is_repeated_to_the_bit(
    whole: tuple[SearchResult, list[Event]], tmp_path: Path, number: int
) -> None:
    with pytest.raises(KeyboardInterrupt):
        found(AtDecision(number, die), out=tmp_path / "run")
    after = AtDecision(0, die)
    assert same(found(after, out=tmp_path / "run", resume=True), whole[0])
    assert (after.steps, after.decisions) == (0, 6)


@pytest.mark.skipif(sys.platform == "win32", reason="the signals are those of POSIX")
def test_a_signal_is_answered_before_the_next_decision(whole: tuple[SearchResult, list[Event]], tmp_path: Path) -> None:
    heard = AtDecision(2, lambda: os.kill(os.getpid(), signal.SIGTERM))
    with pytest.raises(SearchInterrupted, match=r"step 2 of 2 in epoch 2 of 2; continue with `archgrad resume") as stop:
        found(heard, out=tmp_path / "run", interruptible=True)
    assert stop.value.signal == signal.SIGTERM
    assert heard.decisions == 2
    assert not (tmp_path / "run" / "summary.json").exists()
    assert same(found(out=tmp_path / "run", resume=True), whole[0])


def standing_after_training() -> tuple[Experiment, SearchState]:
    method = replace(lambda_darts(), discretizer=Perturbation(1))  # whose regularizer has no say in it
    setup = experiment_of(SPACE, method, noise(), SearchConfig(epochs=2, seed=1, batch_size=8))
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        state = setup.initial_state()
    stepper = setup.stepper(state)
    for _ in range(2):
        stepper.weight_step(state, setup.weight_loader.batch(state.index))
        state.step += 1
    state.epoch, state.step = 1, 2
    return setup, state


ONE_HOT = torch.eye(3)[[0, 1, 2, 0, 1, 2]]


def test_tuning_is_plain_training_at_a_tenth_of_the_first_rate_on_the_batches_that_follow() -> None:
    setup, state = standing_after_training()
    mixture = expand_to_cells(SPACE.searched_blocks(), {"cell": ONE_HOT})
    net, velocity, training = deepcopy(state.supernet), dict[str, Tensor](), setup.weights
    for index in (4, 5):  # what follows the four batches of the search
        batch = setup.weight_loader.batch(index)
        F.cross_entropy(net(batch.inputs, mixture), batch.targets).backward()
        weights = dict(net.named_parameters())
        gradients = {name: torch.zeros_like(w) if w.grad is None else w.grad for name, w in weights.items()}
        norm = torch.stack([gradient.pow(2).sum() for gradient in gradients.values()]).sum().sqrt()
        with torch.no_grad():
            for name, weight in weights.items():
                if weight.grad is None:
                    continue
                gradient = gradients[name] * min(1.0, training.clip / float(norm + 1e-6))
                gradient = gradient + training.weight_decay * weight
                velocity[name] = gradient if name not in velocity else training.momentum * velocity[name] + gradient
                assert training.nesterov
                weight -= 0.1 * training.lr * (gradient + training.momentum * velocity[name])
                weight.grad = None
    before = deepcopy(state.supernet.state_dict())
    evaluation = supernet_evaluation(setup, state)
    first = evaluation.metric(mixture, 0)
    assert evaluation.tune is not None
    evaluation.tune(Tuning({"cell": ONE_HOT}, {"cell": torch.ones(6, dtype=torch.bool)}, 1, 0.1))
    batch = setup.evaluation_loader.batch(0)
    with torch.no_grad():
        logits = net(batch.inputs, mixture, active={name: value != 0 for name, value in mixture.items()})
    assert evaluation.metric(mixture, 0) == 100 * float((logits.argmax(1) == batch.targets).double().mean())
    assert all(torch.equal(value, before[name]) for name, value in state.supernet.state_dict().items())
    assert supernet_evaluation(setup, state).metric(mixture, 0) == first


def test_what_is_not_decided_goes_on_moving_while_it_tunes() -> None:
    setup, state = standing_after_training()
    alpha = {name: value.clone() for name, value in state.alpha.items()}
    some = torch.tensor([True, False, True, False, False, False])
    tune = supernet_evaluation(setup, state).tune
    assert tune is not None
    before = setup.method.relaxation.probabilities(setup.blocks, alpha)["cell"]
    after = tune(Tuning({"cell": ONE_HOT}, {"cell": some}, 1, 0.1))["cell"]
    assert all(not torch.equal(after[row], before[row]) for row in (1, 3, 4, 5))
    assert all(torch.equal(state.alpha[name], value) for name, value in alpha.items())


def test_an_optimizer_that_has_taken_all_its_steps_is_not_asked_for_more() -> None:
    method = replace(ag.recipes.xnas(), discretizer=Perturbation(tune_epochs=1, batches=1))
    space = NASBench201(channels=2, cells_per_stage=1)
    result = ag.search(space, method, ag.data.digits(limit=40), epochs=1, batch_size=10, standard_callbacks=False)
    space.check(result.genotype)
