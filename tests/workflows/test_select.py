"""Selection by successive halving, and by the protocols of the papers."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import archgrad as ag
from archgrad.errors import SearchInterrupted, UserError
from archgrad.spaces import Cost, Genotype, NASBench201
from archgrad.tasks import MetricInfo
from archgrad.workflows import TrainedSeed, Training, TrainResult
from archgrad.workflows.select import SelectionPlan, run_selection, select
from tests.workflows.small import assert_same_bits, untimed
from tests.workflows.small_fit import Killer

MODULE = sys.modules["archgrad.workflows.select"]
DIGITS = ag.data.digits(limit=60)
SPACE = NASBench201(channels=2, cells_per_stage=1)
OPERATIONS = ("nor_conv_3x3", "nor_conv_1x1", "skip_connect", "avg_pool_3x3")

QUICK = ("preset: quick instead of one of a paper",)


def cell(number: int) -> Genotype:
    first, second = OPERATIONS[number % 4], OPERATIONS[number // 4]
    return Genotype.parse(f"|{first}~0|+|{second}~0|none~1|+|none~0|nor_conv_1x1~1|skip_connect~2|")


CELLS = [cell(number) for number in range(8)]


class FakedTraining:
    """A training in no time, whose metric is the number of the cell."""

    def __init__(self, higher_is_better: bool = True, value: Callable[[int], float] = float) -> None:
        self.metric, self.value = MetricInfo("quality", higher_is_better), value
        self.calls: list[tuple[int, int, tuple[int, ...], Any]] = []
        self.held_out: list[float] = []

    def __call__(self, plan: Training, **more: Any) -> TrainResult:
        space: Any = plan.network
        number, epochs = CELLS.index(space.fixed), plan.config.epochs or 0
        self.calls.append((number, epochs, plan.seeds, plan.test))
        self.held_out.append(plan.config.held_out)
        held = {"quality": self.value(number)} if plan.config.held_out else None
        tested = None if plan.test == "none" else {"quality": 100.0 - number}  # the opposite order
        runs = [TrainedSeed(seed, None, (), 2.0, held, tested) for seed in plan.seeds]  # type: ignore[arg-type]
        return TrainResult(space.base, space.fixed, epochs, Cost(1, 1), self.metric, tuple(runs))


def fake(monkeypatch: pytest.MonkeyPatch, **how: Any) -> FakedTraining:
    training = FakedTraining(**how)
    monkeypatch.setattr(MODULE, "run_training", training)
    return training


def test_rounds_halve_and_epochs_double(monkeypatch: pytest.MonkeyPatch) -> None:
    training = fake(monkeypatch)
    found = select(SPACE, CELLS[:5], DIGITS, epochs=16, seed=3, seeds=2, test=DIGITS)
    assert [(len(one.candidates), one.kept, one.epochs) for one in found.rounds] == [(5, 3, 2), (3, 2, 4), (2, 1, 8)]
    assert [number for number, *_ in training.calls] == [0, 1, 2, 3, 4, 4, 3, 2, 4, 3, 4]
    assert all(seeds == (3,) and test == "none" for *_, seeds, test in training.calls[:-1])
    assert training.calls[-1] == (4, 16, (4, 5), DIGITS)  # fresh seeds, and the only ones with test images
    assert found.genotype == CELLS[4]
    assert [one.value for one in found.rounds[0].candidates] == [4, 3, 2, 1, 0]
    assert [one.seconds for one in found.rounds] == [10.0, 6.0, 4.0]
    assert found.to_dict()["final_seconds"] == 4.0


def test_less_is_better_for_some_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    fake(monkeypatch, higher_is_better=False)
    assert select(SPACE, CELLS[:4], DIGITS, epochs=4).genotype == CELLS[0]


@pytest.mark.parametrize("higher_is_better", [True, False])
def test_what_is_no_number_is_last(monkeypatch: pytest.MonkeyPatch, higher_is_better: bool) -> None:
    fake(monkeypatch, higher_is_better=higher_is_better, value=lambda number: math.nan if number != 1 else 5.0)
    assert select(SPACE, CELLS[:3], DIGITS, epochs=4).genotype == CELLS[1]


def test_one_candidate_needs_no_round(monkeypatch: pytest.MonkeyPatch) -> None:
    training = fake(monkeypatch)
    found = select(SPACE, [CELLS[2], str(CELLS[2]), CELLS[2]], DIGITS, epochs=3, seeds=1)
    assert (found.rounds, training.calls) == ((), [(2, 3, (1,), None)])


def test_gaea_trains_each_in_full_and_the_best_with_ten_fresh_seeds_on_all_images(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """C.1: five searches; each architecture trained from scratch; the best with ten different seeds."""
    training = fake(monkeypatch)
    found = select(SPACE, CELLS[:5], DIGITS, epochs=16, seed=3, test=DIGITS, protocol="gaea")
    assert training.calls[:-1] == [(number, 16, (3,), "none") for number in range(5)]
    assert training.calls[-1] == (4, 16, tuple(range(4, 14)), DIGITS)  # the best by held-out, the worst by test images
    assert training.held_out == [0.1] * 5 + [0.0]
    assert [(one.epochs, one.kept) for one in found.rounds] == [(16, 1)]
    assert (found.protocol, found.departures) == ("gaea", QUICK)
    assert found.final.values("test") == [96.0] * 10


def test_amended_trains_each_three_times_and_tests_them_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """A.4: five searches, each architecture evaluated three times."""
    training = fake(monkeypatch)
    found = select(SPACE, CELLS[:5], DIGITS, epochs=16, seed=3, test=DIGITS, protocol="amended")
    assert training.calls == [(number, 16, (3, 4, 5), DIGITS) for number in range(5)]
    assert training.held_out == [0.1] * 5
    assert found.genotype == CELLS[4]  # by held-out images; by test images it is the worst
    assert found.departures == QUICK
    told = found.to_dict()["rounds"][0]["candidates"]
    assert [one["test"]["values"] for one in told] == [[value] * 3 for value in (96.0, 97.0, 98.0, 99.0, 100.0)]
    assert [one.seconds for one in found.rounds[0].candidates] == [6.0] * 5


@pytest.mark.parametrize("protocol", ["gaea", "amended"])
def test_other_numbers_are_not_the_published_protocol(monkeypatch: pytest.MonkeyPatch, protocol: str) -> None:
    training = fake(monkeypatch)
    twice = [CELLS[0], CELLS[1], CELLS[0], CELLS[1], CELLS[0]]  # five searches that found two cells
    assert select(SPACE, twice, DIGITS, epochs=2, test=DIGITS, protocol=protocol).departures == QUICK
    assert len(training.calls) == (3 if protocol == "gaea" else 2)
    found = select(SPACE, [CELLS[0]], DIGITS, epochs=2, test=DIGITS, protocol=protocol, seeds=2)
    wanted = {"gaea": "seeds: 2 instead of 10", "amended": "seeds: 2 instead of 3"}[protocol]
    assert found.to_dict()["departures"] == ["searches: 1 instead of 5", wanted, *QUICK]
    assert len(found.final.runs) == 2


@pytest.mark.parametrize("count", range(1, 9))
def test_few_epochs_are_at_least_one(count: int) -> None:
    plan = SelectionPlan(Training(ag.SearchConfig()), tuple(CELLS[:count]))
    assert all(plan.epochs_of(number + 1, 3) >= 1 for number in range(plan.rounds))
    assert plan.rounds == {1: 0, 2: 1, 3: 2, 4: 2}.get(count, 3)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((SPACE, CELLS), {"held_out": 0.0}, "held_out is 0, but a selection ranks by held-out images"),
        ((SPACE, []), {}, "there are no architectures to select from"),
        ((SPACE, [CELLS[0], "darts-v2"]), {}, "choose the space it belongs to"),
        ((SPACE, CELLS), {"seeds": 0}, "seeds is 0; it must be"),
        ((SPACE, [3]), {}, "the genotype is 3; give a Genotype"),
        ((SPACE, CELLS), {"protocol": "gaia"}, r"unknown protocol 'gaia'; did you mean 'gaea'\?"),
        ((SPACE, CELLS), {"protocol": "gaea"}, r"last trainings on test images, but the data has none; give them"),
        ((SPACE, CELLS), {"protocol": "gaea", "held_out": 0.0, "test": DIGITS}, "held_out is 0, but a selection ranks"),
    ],
    ids=["held-out", "none", "two-spaces", "seeds", "number", "protocol", "no-test", "gaea-held-out"],
)
def test_mistakes(tmp_path: Path, arguments: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        select(*arguments, DIGITS, epochs=2, out=tmp_path / "new", **options)
    assert list(tmp_path.iterdir()) == []


TINY: dict[str, Any] = {"channels": 2, "cells": 1, "epochs": 2, "batch_size": 24}


def run(out: Path, **more: Any) -> ag.SelectionResult:
    plan = SelectionPlan(Training.of(SPACE, CELLS[0], DIGITS, **TINY), tuple(CELLS[:2]), 1, {"runs/a": 1.5})
    return run_selection(plan, out=out, **more)


def test_a_killed_selection_continues_to_the_same_bits(tmp_path: Path) -> None:
    whole, killed, killer = tmp_path / "whole", tmp_path / "killed", Killer("round 1 of 1: architecture 2")
    first = run(whole)
    with pytest.raises(SearchInterrupted, match=f"continue with `archgrad resume {killed}`."):
        run(killed, interruptible=True, callbacks=[killer], tell=killer.tell)
    second = ag.resume(killed)
    weights = [one.final.model.network.state_dict() for one in (first, second)]
    assert all(torch.equal(value, weights[1][name]) for name, value in weights[0].items())
    values = [[one.value for one in result.rounds[0].candidates] for result in (first, second)]
    assert values[0] == values[1]
    content = json.loads((killed / "selection.json").read_text())
    assert content["search_seconds"] == {"runs/a": 1.5}
    assert content["final"]["genotype"] == str(first.genotype)
    with pytest.raises(UserError, match="is not empty; choose a new folder"):
        run(killed)


@pytest.mark.parametrize(
    ("protocol", "part", "last"),
    [
        ("gaea", "training the best one with 2 fresh seeds", "final"),
        ("amended", "round 1 of 1: architecture 2", "round-1"),
    ],
)
def test_a_killed_protocol_continues_to_the_same_bits(tmp_path: Path, protocol: str, part: str, last: str) -> None:
    plan = SelectionPlan(
        Training.of(SPACE, CELLS[0], DIGITS, test=DIGITS, **TINY), tuple(CELLS[:2]), 2, {}, protocol
    )  # fmt: skip
    whole, killed, killer = run_selection(plan), tmp_path / "killed", Killer(part)
    with pytest.raises(SearchInterrupted, match=f"continue with `archgrad resume {killed}`."):
        run_selection(plan, out=killed, interruptible=True, callbacks=[killer], tell=killer.tell)
    with pytest.raises(UserError, match=r"the test of .* cannot be named in a file; .*archgrad\.resume\(DIR, test=…\)"):
        ag.resume(killed)
    resumed = ag.resume(killed, test=DIGITS)
    assert_same_bits(whole.final, resumed.final)
    content = json.loads((killed / "selection.json").read_text())
    assert untimed(content["rounds"]) == untimed(whole.to_dict()["rounds"])
    assert (content["protocol"], content["departures"][0]) == (protocol, "searches: 2 instead of 5")
    assert all(f"killed/{last}/" in one["model"] for one in content["final"]["seeds"])


@pytest.mark.parametrize(
    "change",
    [
        {"seeds": 0}, {"seeds": "x"}, {"genotypes": []}, {"genotypes": 7}, {"search_seconds": []}, {"protocol": "x"},
        {"protocol": []}, {"searches": 0},
    ],
    ids=str,
)  # fmt: skip
def test_a_damaged_list_of_candidates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]) -> None:
    fake(monkeypatch)
    select(SPACE, CELLS[:2], "digits", limit=60, epochs=2, out=tmp_path)
    content = json.loads((tmp_path / "candidates.json").read_text())
    assert SelectionPlan.read(tmp_path, {}).genotypes == tuple(CELLS[:2])
    (tmp_path / "candidates.json").write_text(json.dumps({**content, **change}))
    with pytest.raises(UserError, match=r"candidates\.json .*start a new"):
        ag.resume(tmp_path)
