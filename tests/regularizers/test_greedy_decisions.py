"""Greedy decisions: a plain re-implementation of SGAS, rows that are decided for good, faster steps, resuming."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from listening import EpochFinished, on
from same_bits import killed_and_resumed
from spying import spied
from tiny_space import Tiny

import archgrad as ag
from archgrad.discretizers import Argmax, Perturbation
from archgrad.errors import UserError
from archgrad.loop.steps import Stepper
from archgrad.operations import DilatedConv
from archgrad.regularizers import DecisionStep, GreedyDecisions
from archgrad.relaxations import DecidedRows, Relaxed
from archgrad.spaces.genotype import Decision

DATA = ag.data.digits(limit=48)
SPACE = Tiny(channels=2, cells_per_stage=1)
CELLS = ag.spaces.DARTS(channels=2, cells=3)
SETTINGS: dict[str, Any] = {"batch_size": 12, "seed": 0, "held_out": 0, "standard_callbacks": False}
Chosen = dict[int, int | None]
"""The decided edges with their operations; None: removed."""


def scores_by_hand(rows: list[list[float]]) -> list[float]:
    """Score the edges of a cell, whose first operation is ``none``."""
    importance = [sum(row[1:]) for row in rows]
    certainty = []
    for row, total in zip(rows, importance, strict=True):
        shares = [weight / total for weight in row[1:]]
        certainty.append(1 + sum(share * math.log(share) for share in shares) / math.log(len(shares)))
    first, second = (
        [(value - min(values)) / (max(values) - min(values)) for value in values] for values in (importance, certainty)
    )
    return [one * other for one, other in zip(first, second, strict=True)]


def decide_by_hand(rows: list[list[float]], nodes: list[list[int]], chosen: Chosen) -> None:
    """Decide one more edge, and remove the others of a node that has two."""
    scores = scores_by_hand(rows)
    edge = max((edge for edge in range(len(rows)) if edge not in chosen), key=lambda one: scores[one])
    chosen[edge] = max(range(1, len(rows[edge])), key=lambda choice: rows[edge][choice])
    for node in nodes:
        if sum(chosen.get(one) is not None for one in node) == 2:
            chosen |= {one: None for one in node if one not in chosen}


@pytest.mark.parametrize("seed", [0, 1])
def test_edges_are_decided_as_by_a_plain_reimplementation(seed: int) -> None:
    """α wanders for 50 epochs; the published code decides after epochs 10, 15, …, 45."""
    block = CELLS.blocks[0]
    nodes = [[row for row, one in enumerate(block.rows) if one.target == target] for target in block.targets]
    draws = torch.Generator().manual_seed(seed)
    alpha = {block.name: torch.randn(block.shape, generator=draws, dtype=torch.float64)}
    decided, chosen = DecidedRows(), Chosen()
    for epoch in range(1, 51):
        step = torch.randn(block.shape, generator=draws, dtype=torch.float64)
        alpha = decided.resting(alpha, {block.name: alpha[block.name] + 0.3 * step})
        rows = alpha[block.name].softmax(-1)
        decided = GreedyDecisions().decide(DecisionStep((block,), {block.name: rows}, decided, epoch, 50))
        if epoch in range(10, 50, 5):
            decide_by_hand(rows.tolist(), nodes, chosen)
        marks = decided.marks.get(block.name, torch.zeros(len(block.rows), dtype=torch.bool)).tolist()
        assert [row for row, mark in enumerate(marks) if mark] == sorted(chosen)
        for row, choice in chosen.items():
            wanted = [float(place == choice) for place in range(block.shape[1])]
            assert decided.weights[block.name][row].tolist() == wanted
    assert decided.everywhere(alpha)
    assert Counter(choice is None for choice in chosen.values()) == {False: 8, True: 6}


def test_where_no_choice_is_excluded_certainty_alone_decides() -> None:
    block = SPACE.blocks[0]
    rows = torch.tensor([[0.4, 0.3, 0.3], [0.1, 0.8, 0.1], [0.6, 0.2, 0.2]]) + 1e-8
    order = []
    decided = DecidedRows()
    for epoch in (1, 2, 3):
        decided = GreedyDecisions(1 / 3, 1.0).decide(DecisionStep((block,), {"cell": rows}, decided, epoch, 3))
        order.append(decided.weights["cell"].argmax(-1)[decided.marks["cell"]].tolist())
    assert order == [[1], [1, 0], [0, 1, 0]]


def test_decided_rows_are_one_hot_only_their_choice_is_computed_and_their_alpha_rests() -> None:
    rows = DecidedRows({"cell": torch.tensor([[0.0, 1.0], [0.0, 0.0]])}, {"cell": torch.tensor([True, False])})
    mixture = {"cell": torch.full((3, 2, 2), 0.5)}
    fixed = rows.fixed(Relaxed(mixture))
    assert fixed.mixture["cell"].tolist() == [[[0.0, 1.0], [0.5, 0.5]]] * 3
    assert fixed.active is not None
    assert fixed.active["cell"].tolist() == [[[False, True], [True, True]]] * 3
    drawn = rows.fixed(Relaxed(mixture, {"cell": torch.tensor([[[True, False], [True, False]]] * 3)}))
    assert drawn.active is not None
    assert drawn.active["cell"].tolist() == [[[False, True], [True, False]]] * 3
    by_image = rows.fixed(Relaxed({"cell": torch.full((3, 5, 2, 2), 0.5)}))
    assert by_image.mixture["cell"].shape == (3, 5, 2, 2)
    before, after = ({"cell": torch.full((2, 2), value)} for value in (0.0, 1.0))
    assert rows.resting(before, after)["cell"].tolist() == [[0.0, 0.0], [1.0, 1.0]]
    assert not rows.everywhere(before)
    later = DecidedRows({"cell": torch.tensor([[1.0, 0.0], [1.0, 0.0]])}, {"cell": torch.tensor([False, True])})
    joined = rows.joined(later)
    assert joined.weights["cell"].tolist() == [[0.0, 1.0], [1.0, 0.0]]
    assert joined.everywhere(before)
    assert not DecidedRows().marks
    assert DecidedRows().fixed(Relaxed(mixture)).active is None


def test_a_search_computes_less_and_less_and_ends_with_its_architecture(monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[int] = []
    alphas: list[torch.Tensor] = []
    calls = spied(monkeypatch, DilatedConv, "mixed", lambda self, *args: 1)  # separable ones, too
    moved = spied(monkeypatch, Stepper, "architecture_step", lambda self, state, batches: state.epoch)

    def note(event: EpochFinished) -> None:
        computed.append(len(calls))
        alphas.append(event.state.alpha["normal"].clone())
        calls.clear()

    method = ag.recipes.sgas(space="darts")
    result = ag.search(CELLS, method, DATA, epochs=10, callbacks=on(EpochFinished, note), **SETTINGS)
    state = result.stages.runs[-1][1]
    assert sorted(set(moved)) == list(range(9))  # after epoch 9 all is decided, and nothing is left to move
    marks = state.decided.marks["normal"]
    assert bool(marks.all())
    first = [next(epoch for epoch in range(9) if torch.equal(alphas[epoch][row], alphas[-1][row])) for row in range(14)]
    assert min(first) == 1  # after epoch 2
    rows = zip(CELLS.blocks[0].rows, state.decided.weights["normal"], strict=True)
    chosen = {Decision(row.target, row.source, row.choices[int(own.argmax())]) for row, own in rows if own.any()}
    assert chosen == set(result.genotype["normal"])
    assert computed[0] == computed[1] > computed[2]
    assert computed == sorted(computed, reverse=True)
    assert computed[-1] <= 2 * 3 * 8  # the chosen ones: at most 8 in each of 3 cells, in 2 steps of the weights
    assert torch.equal(result.mixture["normal"][0], state.decided.weights["normal"])
    assert Argmax().ties(CELLS, result.stages.runs[-1][0].present_probabilities(state), True).rows == 0
    assert result.top(1)[0].genotype == result.genotype


def test_a_killed_search_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    method = replace(ag.recipes.sgas(), regularizers=(GreedyDecisions(0.3, 0.9),))
    both = killed_and_resumed(partial(ag.search, SPACE, method, DATA, epochs=3, **SETTINGS), tmp_path)
    first, second = (one.stages.runs[-1][1].decided for one in both)
    assert torch.equal(first.weights["cell"], second.weights["cell"])
    assert torch.equal(first.marks["cell"], second.marks["cell"])


def test_what_is_decided_stays_decided_while_another_part_derives_the_rest() -> None:
    method = replace(
        ag.recipes.sgas(),
        regularizers=(GreedyDecisions(0.1, 0.1),),
        discretizer=Perturbation(tune_epochs=1, batches=1),
    )
    result = ag.search(SPACE, method, DATA, epochs=1, **SETTINGS)
    state = result.stages.runs[-1][1]
    assert result.genotype == Argmax().select(SPACE, state.decided.weights)


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(UserError, match=r"begin is 0\.9, after .*end, which is 0\.2"):
        GreedyDecisions(0.9, 0.2)
    with pytest.raises(UserError, match=r"block 'cell.edges' weighs edges by themselves"):
        replace(ag.recipes.pc_darts(), regularizers=(GreedyDecisions(),)).check(ag.spaces.NASBench201())
