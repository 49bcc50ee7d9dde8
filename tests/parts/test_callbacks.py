"""What every callback must do: it declares what it needs, measures plain numbers, and leaves a search as it is."""

from __future__ import annotations

import json
import logging
import signal
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import FrozenInstanceError, dataclass, fields
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_space import Tiny
from torch import Tensor

import archgrad as ag
from archgrad.callbacks import CALLBACKS, Callback, SearchView, Stop, join_callbacks, standard
from archgrad.diagnostics import Snapshot
from archgrad.errors import UserError
from archgrad.hypergradients import EvaluationPoint
from archgrad.parts.knobs import knobs_of

DATA = ag.data.digits(limit=40)
SPACE = Tiny(channels=2, cells_per_stage=1)
SETTINGS: dict[str, Any] = {"epochs": 2, "batch_size": 10, "held_out": 0, "seed": 1}


def searched(*given: Callback, **settings: Any) -> ag.SearchResult:
    plain = {"standard_callbacks": False, "on_collapse": "ignore"}
    return ag.search(SPACE, ag.recipes.gaea(level="bilevel"), DATA, callbacks=given, **SETTINGS, **plain | settings)


@pytest.fixture(scope="module")
def plain() -> ag.SearchResult:
    return searched()


@pytest.fixture(params=sorted(CALLBACKS))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_it_is_a_frozen_dataclass_with_a_first_sentence(name: str) -> None:
    member = CALLBACKS.create(name)
    assert isinstance(member, Callback)
    assert str(type(member).__doc__).splitlines()[0].endswith((".", ").", ":"))
    for knob in fields(member):  # type: ignore[arg-type]
        with pytest.raises(FrozenInstanceError):
            setattr(member, knob.name, None)
    assert CALLBACKS.create(name) == member
    assert CALLBACKS.create(name, **knobs_of(member)) == member


def test_it_requires_others_only(name: str) -> None:
    member = CALLBACKS.create(name)
    assert all(kind in CALLBACKS and CALLBACKS[kind] is not type(member) for kind in member.requires)
    assert member.kind in CALLBACKS
    assert member.every > 0


def test_it_changes_no_bit_and_records_plain_values(name: str, plain: ag.SearchResult, tmp_path: Path) -> None:
    watched = searched(CALLBACKS.create(name), out=tmp_path)
    assert all(torch.equal(value, watched.alpha[block]) for block, value in plain.alpha.items())
    weights = watched.supernet.state_dict()
    assert all(torch.equal(value, weights[key]) for key, value in plain.supernet.state_dict().items())
    for record, other in zip(plain.history, watched.history, strict=True):
        assert {**record, "seconds": 0} == {key: other[key] for key in record} | {"seconds": 0}
        assert all(value is None or type(value) in (int, float, str) for value in other.values())


def test_a_resumed_search_records_the_same(name: str, tmp_path: Path) -> None:
    class Fail(Callback):
        def on_step_end(self, search: SearchView, means: Mapping[str, float]) -> None:
            if search.index == 3:
                raise ZeroDivisionError

    whole = searched(CALLBACKS.create(name), out=tmp_path / "whole")
    with pytest.raises(ZeroDivisionError):
        searched(CALLBACKS.create(name), Fail(), out=tmp_path / "killed")
    resumed = searched(CALLBACKS.create(name), out=tmp_path / "killed", resume=True)
    assert [{**r, "seconds": 0} for r in whole.history] == [{**r, "seconds": 0} for r in resumed.history]


@dataclass(frozen=True)
class SkipPull(Callback):
    """A user's own: measures what the cells want of the first choice, and stops after some epochs."""

    epochs: int = 1
    every: int = 2

    def measure_gradients(self, blocks: Sequence[Any], gradients: Mapping[str, Tensor]) -> dict[str, float]:
        assert all(value.shape == (3, 3, 3) for value in gradients.values())
        return {"pull": gradients["cell"][:, :, 0].sum().item(), "pulls": 1.0}

    def measure_point(self, point: EvaluationPoint) -> dict[str, float]:
        return {"outer_loss": point.problem.outer(point.weights, point.alpha, point.outer_batch).item()}

    def measure_epoch(self, snapshot: Snapshot, search: SearchView) -> dict[str, float | str]:
        assert snapshot.evaluation is not None
        assert search.history[-1]["pulls"] == 1.0
        return {"accuracy": snapshot.evaluation.metric(SPACE.one_hot(snapshot.genotype), 0), "mood": "good"}

    def measure_end(self, snapshot: Snapshot) -> dict[str, float]:
        return {"ended": float(snapshot.last)}

    def stop(self, search: SearchView) -> Stop | None:
        return Stop(1, "the pull was measured.") if search.epoch == self.epochs else None


def test_a_users_own_measures_and_stops_a_search(tmp_path: Path, plain: ag.SearchResult) -> None:
    result = searched(SkipPull(), out=tmp_path)
    assert result.stopped == "the pull was measured."
    (record,) = result.history
    assert {"pull", "outer_loss", "accuracy"} <= set(record)
    assert (record["mood"], record["ended"], record["stopped_to"]) == ("good", 1.0, 1)
    assert record["arch_loss"] == plain.history[0]["arch_loss"]
    assert json.loads((tmp_path / "metrics.jsonl").read_text()) == record
    later = searched(SkipPull(epochs=9))
    assert ["ended" in record for record in later.history] == [False, True]
    assert torch.equal(later.alpha["cell"], plain.alpha["cell"])


@pytest.mark.parametrize("taken", ["epoch", "genotype", "stage", "seconds", "stopped_to"])
def test_what_the_loop_says_cannot_be_overwritten(taken: str) -> None:
    class Late(Callback):
        def measure_epoch(self, snapshot: Snapshot, search: SearchView) -> dict[str, float]:
            return {taken: 0.0}

    class Early(Callback):
        def measure_gradients(self, blocks: Any, gradients: Any) -> dict[str, float]:
            return {taken: 0.0}

    for callback in (Late(), Early()):
        with pytest.raises(UserError, match=f"records '{taken}', but the search itself records that"):
            searched(callback)


def test_words_cannot_be_averaged() -> None:
    class Wordy(Callback):
        def measure_point(self, point: EvaluationPoint) -> dict[str, str]:
            return {"mood": "bad"}

    with pytest.raises(UserError, match="only numbers can be averaged; return words from measure_epoch"):
        searched(Wordy())


def test_nothing_is_computed_for_those_who_do_not_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any) -> Any:
        raise AssertionError

    monkeypatch.setattr("archgrad.loop.measuring.evaluate_at_state", refuse)
    monkeypatch.setattr("archgrad.loop.steps.Stepper.mixture_gradients", refuse)
    assert len(searched(Callback()).history) == 2


def test_what_is_no_callback_is_a_sentence() -> None:
    with pytest.raises(UserError, match="is not a callback; give objects of classes that derive from"):
        searched(print)  # type: ignore[arg-type]


def test_what_cannot_be_asked_for_is_a_sentence() -> None:
    class Hasty(Callback):
        def stop(self, search: SearchView) -> Stop | None:
            return Stop(2, "now.")

    class Homesick(Callback):
        def go_back(self, search: SearchView) -> str | None:
            return "nothing new"

    with pytest.raises(UserError, match="Hasty asks for the architecture of epoch 2, but epochs 1 to 1 are done"):
        searched(Hasty())
    with pytest.raises(UserError, match="asks to go back, but none has asked to keep a state before"):
        searched(Homesick())


def test_of_one_kind_there_is_one() -> None:
    own = ag.callbacks.ArchCurvature(minimum=8)
    stop = ag.callbacks.EigenvalueStop()
    method = ag.recipes.darts()
    assert [one for one in join_callbacks(method.measures, [own]) if one.kind == own.kind] == [own]
    assert [one for one in join_callbacks(method.measures, [own], [stop]) if one.kind == own.kind] == [stop]
    silent = [Callback(), Callback()]
    assert join_callbacks(standard(), silent)[-2:] == tuple(silent)
    assert join_callbacks((), [ag.callbacks.Doctor()])[0] == ag.callbacks.ArchitectureMeasures()


def test_a_search_leaves_the_process_as_it_was(tmp_path: Path) -> None:
    def state() -> tuple[Any, ...]:
        loggers = [logging.getLogger(name) for name in (None, "archgrad")]
        return (
            torch.get_rng_state().tolist(),
            torch.get_num_threads(),
            torch.is_grad_enabled(),
            torch.get_default_dtype(),
            [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)],
            list(warnings.filters),
            [(logger.level, list(logger.handlers), logger.propagate) for logger in loggers],
        )

    seen: list[tuple[Any, ...]] = []

    class Look(Callback):
        def on_step_end(self, search: SearchView, means: Mapping[str, float]) -> None:
            seen.append(state())

    torch.manual_seed(5)
    before = state()
    searched(Look(), standard_callbacks=True, on_collapse="warn", out=tmp_path)
    assert state() == before
    assert all(one[1:] == before[1:] for one in seen), "but for the random state, while it runs either"


def test_the_command_takes_callbacks_by_name(archgrad: Any, tmp_path: Path) -> None:
    out = archgrad.run("list", "callbacks", "all")
    assert all(f"{name}: " in out for name in CALLBACKS)
    assert ["stationarity.every", "250"] in [line.split()[:2] for line in out.splitlines()]
    small = ("--channels", 2, "--cells", 1, "--limit", 40, "--batch-size", 10, "--epochs", 1, "--method", "gaea")
    wanted = ("--callback", "stationarity", "--callback", "inner-curvature", "--set", "stationarity.steps=2")
    archgrad.run("search", *small, *wanted, "--out", "run")
    record = json.loads(Path("run/metrics.jsonl").read_text())
    assert {"stationarity", "lambda_max", "entropy", "diagnosis"} <= set(record)
    archgrad.run("resume", "run")
    assert "add --callback stationarity" in archgrad.error("search", *small, "--set", "stationarity.steps=2")
    assert "did you mean 'stationarity'" in archgrad.error("search", *small, "--callback", "stationary")
