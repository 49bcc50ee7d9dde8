"""What a search does when it is told that it collapses: a diagnosis is injected, all else is a real tiny search."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from experiments import experiment_of
from listening import EpochFinished, Event, SearchFinished, StepFinished, listening, on
from same_bits import assert_same, timeless
from spying import spied

import archgrad as ag
from archgrad.arch_optimizers import ArchOptimizer, ArchState
from archgrad.autodiff.tensors import Alpha
from archgrad.config import SearchConfig
from archgrad.data import ImageData
from archgrad.diagnostics import Diagnosis
from archgrad.diagnostics.diagnosis import Verdict
from archgrad.errors import SearchInterrupted, UserError
from archgrad.loop import RunFolder, SearchResult, trust
from archgrad.loop.loaders import StepBatches
from archgrad.loop.measuring import supernet_evaluation
from archgrad.loop.stages import restore_run
from archgrad.loop.steps import Stepper
from archgrad.method.reactions import switched
from archgrad.operations import Identity, ReLUConvBN, Vocabulary
from archgrad.regularizers import LayerAlignment
from archgrad.spaces.staged import StagedSpace
from archgrad.system import random_streams

EPOCHS, STEPS = 5, 2
IMAGES = torch.randint(256, (16, 1, 6, 6), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
DATA = ImageData("noise", IMAGES, torch.arange(16) % 4, tuple("abcd"))


METHOD = replace(ag.recipes.darts(), arch_optimizer=ag.arch_optimizers.Adam(lr=6.25))


@dataclass(frozen=True, kw_only=True)
class Tiny(StagedSpace):
    """Three cells of one edge."""

    name: ClassVar[str] = "tiny"
    nodes: ClassVar[int] = 2
    operations: ClassVar[Vocabulary] = {
        "skip_connect": lambda site: Identity(),
        "conv_3x3": lambda site: ReLUConvBN(site.channels, site, 3),
    }


SPACE = Tiny(channels=2, cells_per_stage=1)
WARM = replace(METHOD, schedule=ag.Schedule(warmup_epochs=2))


def run(method: ag.Method = METHOD, **settings: Any) -> SearchResult:
    return ag.search(SPACE, method, DATA, epochs=EPOCHS, batch_size=4, seed=3, **settings)


@lru_cache
def reference(reaction: str) -> SearchResult:
    """What a search that is not disturbed comes to, where it is sick."""
    return run(on_collapse=reaction)


def verdicts(*said: str) -> Callable[[Sequence[Any], int], Diagnosis]:
    """A doctor who knows beforehand: one verdict for each epoch; what is not alarming is usable."""

    def judge(records: Sequence[Any], epochs: int, cures: Sequence[str] = ()) -> Diagnosis:
        verdict = said[len(records) - 1] if records else "too early"
        bad = verdict in ("collapsing",)
        return Diagnosis(verdict, len(records) if bad else None, ("layers fight",), "do something", usable=not bad)

    return judge


SICK = ("healthy", "healthy", "collapsing", "collapsing", "collapsing")


@pytest.fixture
def sick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that is healthy for two epochs only."""
    judge = verdicts(*SICK)
    monkeypatch.setattr("archgrad.callbacks.doctor.diagnose", judge)

    def last_usable(records: Sequence[Any], epochs: int) -> int:
        return max(end for end in range(len(records) + 1) if judge(records[:end], epochs).usable)

    monkeypatch.setattr("archgrad.callbacks.doctor.last_usable_epoch", last_usable)


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, bool]]:
    """(epoch, whether LayerAlignment was at work) of every weight step."""

    def note(self: Stepper, state: Any, *given: Any) -> tuple[int, bool]:
        return state.epoch, any(isinstance(part, LayerAlignment) for part in self.method.regularizers)

    return spied(monkeypatch, Stepper, "weight_step", note)


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_a_warning_is_said_once_and_kept_in_the_records(sick: None, caplog: pytest.LogCaptureFixture) -> None:
    result = run()
    assert [record["diagnosis"] for record in result.history] == list(SICK)
    assert [record.getMessage() for record in caplog.records] == ["epoch 3: layers fight. Do something."]
    assert result.stopped is None


def test_a_warning_is_not_repeated_after_a_resume(sick: None, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def fail(event: Event) -> None:
        if isinstance(event, EpochFinished) and event.record["epoch"] == 3:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(out=tmp_path, callbacks=listening(fail))
    resumed = run(out=tmp_path, resume=True)
    assert len(caplog.records) == 1
    assert_same(resumed, reference("warn"))


def test_it_can_be_ignored(sick: None, caplog: pytest.LogCaptureFixture) -> None:
    ignored = run(on_collapse="ignore")
    assert not caplog.records
    assert all("diagnosis" not in record for record in ignored.history)
    assert torch.equal(ignored.alpha["cell"], reference("warn").alpha["cell"])


@pytest.mark.parametrize("folder", [False, True])
def test_it_stops_with_the_last_sound_architecture(sick: None, tmp_path: Path, folder: bool) -> None:
    events: list[Event] = []
    where = {"out": tmp_path / "run"} if folder else {}
    result = run(on_collapse="stop", callbacks=listening(events.append), **where)
    whole = reference("warn")
    assert [record["epoch"] for record in result.history] == [1, 2, 3]
    assert str(result.genotype) == whole.history[1]["genotype"]
    assert result.stopped == "the search was collapsing after epoch 3; the architecture is that of epoch 2."
    assert result.history[-1]["stopped_to"] == 2
    assert isinstance(events[-1], SearchFinished)
    if folder:
        assert [line["diagnosis"] for line in lines(tmp_path / "run")] == list(SICK[:3])
        assert json.loads((tmp_path / "run" / "summary.json").read_text())["stopped"] == result.stopped
        assert_same(run(on_collapse="stop", resume=True, **where), result)


def test_stopping_where_no_epoch_was_sound_returns_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archgrad.callbacks.doctor.diagnose", verdicts("too early", "collapsing"))
    monkeypatch.setattr("archgrad.callbacks.doctor.last_usable_epoch", lambda records, epochs: 0)
    result = run(on_collapse="stop")
    assert str(result.genotype) == result.history[0]["genotype"]
    assert result.history[-1]["stopped_to"] == 1
    assert "no epoch was usable; the architecture is that of epoch 1" in str(result.stopped)


def test_what_a_warm_up_derives_is_returned_by_no_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archgrad.callbacks.doctor.diagnose", verdicts(*["too early"] * 3, "collapsing"))
    monkeypatch.setattr("archgrad.callbacks.doctor.last_usable_epoch", lambda records, epochs: 0)
    result = run(on_collapse="stop", method=WARM)
    assert [record["movement"] > 0 for record in result.history] == [False, False, True, True]
    assert result.history[-1]["stopped_to"] == 3
    assert "no epoch was usable; the architecture is that of epoch 3" in str(result.stopped)


def test_a_switch_does_not_throw_a_warm_up_away(monkeypatch: pytest.MonkeyPatch, used: list[tuple[int, bool]]) -> None:
    monkeypatch.setattr("archgrad.callbacks.doctor.diagnose", never_sound)
    result = run(on_collapse="switch", method=WARM)
    assert [epoch for epoch, aligned in used if not aligned] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert [epoch for epoch, aligned in used if aligned] == [2, 2, 3, 3, 4, 4]
    assert [record.get("switched_from") for record in result.history] == [None, None, 4, None, None]


def never_sound(records: Sequence[Any], epochs: int, cures: Sequence[str] = ()) -> Diagnosis:
    """A doctor who sees a collapse after epoch 4, and nothing usable before."""
    verdict: Verdict = "collapsing" if len(records) >= 4 else "too early"
    return Diagnosis(verdict, None, ("bad",), "act", usable=False)


def test_a_stopped_search_measures_the_architecture_that_it_returns(sick: None, tmp_path: Path) -> None:
    result = run(on_collapse="stop", out=tmp_path)
    last = result.history[-1]
    assert [("discrete_accuracy" in record) for record in result.history] == [False, False, True]
    assert lines(tmp_path)[-1]["discrete_accuracy"] == last["discrete_accuracy"]
    setup = experiment_of(SPACE, METHOD, DATA, SearchConfig(epochs=EPOCHS, batch_size=4, seed=3, on_collapse="stop"))
    state = restore_run(setup, tmp_path)
    evaluation = supernet_evaluation(setup, state)
    for name, mixture in (
        ("discrete_accuracy", setup.space.one_hot(result.genotype)),
        ("mixture_accuracy", dict(result.mixture)),
    ):
        right = [evaluation.metric(mixture, number) for number in range(evaluation.batches)]
        assert last[name] == pytest.approx(sum(right) / len(right))


def test_only_what_is_watched_is_measured_when_it_stops(sick: None) -> None:
    result = run(on_collapse="stop", standard_callbacks=False)
    assert all("discrete_accuracy" not in record for record in result.history)


@pytest.mark.parametrize(("reaction", "there"), [("warn", True), ("stop", True), ("ignore", False)])
def test_a_diagnosis_has_what_it_needs_whatever_else_is_watched(reaction: str, there: bool) -> None:
    for watched in ((), (ag.callbacks.ArchitectureMeasures(),)):
        settings = {"standard_callbacks": False, "callbacks": watched, "on_collapse": reaction}
        result = ag.search(SPACE, WARM, DATA, epochs=3, batch_size=4, **settings)
        named = {"entropy", "movement", "skip_weight"}
        for record in result.history:
            assert named & set(record) == (named if there or watched else set())
        if there:
            assert [record["diagnosis"] for record in result.history] == ["too early"] * 3


def test_it_goes_back_and_on_with_layer_alignment(
    sick: None, tmp_path: Path, used: list[tuple[int, bool]], caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[int] = []

    def listen(event: EpochFinished) -> None:
        seen.append(event.record["epoch"])
        assert [line["epoch"] for line in lines(tmp_path)] == list(range(1, event.record["epoch"] + 1))
        assert event.state.history[-1]["epoch"] == event.record["epoch"]

    result = run(on_collapse="switch", out=tmp_path, callbacks=on(EpochFinished, listen))
    assert seen == [1, 2, 3, 3, 4, 5]
    assert used == [(epoch, False) for epoch in (0, 0, 1, 1, 2, 2)] + [(epoch, True) for epoch in (2, 2, 3, 3, 4, 4)]
    assert [record["epoch"] for record in result.history] == [1, 2, 3, 4, 5]
    assert [record.get("switched_from") for record in result.history] == [None, None, 3, None, None]
    assert timeless(lines(tmp_path)) == timeless(result.history)
    assert json.loads((tmp_path / "summary.json").read_text())["switched"] == {"from": 3, "to": 2}
    messages = [record.getMessage() for record in caplog.records]
    assert messages[1].startswith("going back to epoch 2, and continuing from there with LayerAlignment")
    assert messages[0] == messages[2] == "epoch 3: layers fight. Do something."  # said again, and no second switch
    assert len(messages) == 3
    assert sum(record["seconds"] for record in result.history) == pytest.approx(result.seconds, abs=0.01)
    assert_same(reference("switch"), result)  # in memory as on disk
    assert_same(run(on_collapse="switch", out=tmp_path, resume=True), result)


def test_differences_are_compared_again_after_a_switch(sick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    compared = spied(monkeypatch, trust, "difference_products", lambda *arguments, **knobs: 1)
    noted: list[dict[str, bool]] = []
    run(
        replace(METHOD, hypergradient=ag.hypergradients.HYPERGRADIENTS.create("unrolled")),
        on_collapse="switch",
        callbacks=on(EpochFinished, lambda event: noted.append(dict(event.state.trusted))),
    )
    assert len(compared) == 2  # at the first step, and at the first after the switch
    assert noted[0] == {"products forward": True}
    assert noted[-1] == {"products forward": True, "LayerAlignment": True}


def test_what_follows_a_switch_is_a_search_with_layer_alignment_from_there(sick: None) -> None:
    """The state after epoch 2 of the plain method, continued by the other one, by hand."""
    result = run(on_collapse="switch")
    settings = {"epochs": EPOCHS, "batch_size": 4, "seed": 3}
    with torch.random.fork_rng([]):
        torch.manual_seed(random_streams.seed_of(3, "global"))
        setup = experiment_of(SPACE, METHOD, DATA, SearchConfig(**settings))
        state = setup.initial_state()
    plain, other = setup.stepper(state), replace(setup, method=switched(setup.method)).stepper(state)
    for index in range(EPOCHS * STEPS):
        stepper = plain if index < 2 * STEPS else other
        batches = StepBatches(setup.weight_loader, setup.arch_loader, index)
        stepper.architecture_step(state, batches)
        stepper.weight_step(state, batches.inner(0))
        state.step += 1
        if state.step == STEPS:
            state.epoch, state.step = state.epoch + 1, 0
    assert torch.equal(state.alpha["cell"], result.alpha["cell"])


def test_a_search_that_was_never_sound_begins_again(
    monkeypatch: pytest.MonkeyPatch, used: list[tuple[int, bool]]
) -> None:
    monkeypatch.setattr("archgrad.callbacks.doctor.diagnose", verdicts(*["collapsing"] * EPOCHS))
    result = run(on_collapse="switch")
    assert used[:STEPS] == [(0, False)] * STEPS
    assert used[STEPS:] == [(epoch, True) for epoch in range(EPOCHS) for _ in range(STEPS)]
    assert result.history[0]["switched_from"] == 1


def test_a_collapse_in_the_last_epoch_is_still_answered(
    monkeypatch: pytest.MonkeyPatch, used: list[tuple[int, bool]], tmp_path: Path
) -> None:
    said = ("healthy",) * 4 + ("collapsing",)
    monkeypatch.setattr("archgrad.callbacks.doctor.diagnose", verdicts(*said))
    result = run(on_collapse="switch", out=tmp_path)
    assert used[-STEPS:] == [(EPOCHS - 1, True)] * STEPS
    assert result.history[-1]["switched_from"] == EPOCHS
    assert_same(run(on_collapse="switch", out=tmp_path, resume=True), result)


def test_nothing_is_put_aside_unless_it_may_be_needed(sick: None, tmp_path: Path) -> None:
    for reaction in ("warn", "ignore", "stop", "switch"):
        run(on_collapse=reaction, out=tmp_path / reaction)
        assert (tmp_path / reaction / "healthy.pt").exists() == (reaction == "switch")


class Killed(BaseException):
    """A process that ends."""


def killer(kind: type, number: int) -> Callable[[Event], None]:
    calls = 0

    def kill(event: Event) -> None:
        nonlocal calls
        calls += isinstance(event, kind)
        if isinstance(event, kind) and calls == number:
            raise Killed

    return kill


@pytest.mark.parametrize(
    ("reaction", "kind", "number"),
    [
        ("switch", StepFinished, 3),  # long before
        ("switch", EpochFinished, 2),  # after the checkpoint of the usable epoch, before it is put aside
        ("switch", StepFinished, 5),  # within the epoch that collapses
        ("switch", EpochFinished, 3),  # after its checkpoint, before the switch
        ("switch", StepFinished, 7),  # after the switch, before another checkpoint
        ("switch", EpochFinished, 4),  # after the first epoch by the other method
        ("switch", EpochFinished, 6),
        ("stop", StepFinished, 5),
        ("stop", EpochFinished, 3),
    ],
)
def test_killed_anywhere_it_comes_to_the_same_end(
    sick: None, tmp_path: Path, reaction: str, kind: type, number: int
) -> None:
    with pytest.raises(Killed):
        run(on_collapse=reaction, out=tmp_path, callbacks=listening(killer(kind, number)))
    resumed = run(on_collapse=reaction, out=tmp_path, resume=True)
    assert_same(resumed, reference(reaction))
    assert timeless(lines(tmp_path)) == timeless(resumed.history)


@pytest.mark.parametrize(
    ("place", "call"),
    [
        ("save_fallback", 1),
        ("save_fallback", 3),
        *(("save", call) for call in (4, 5, 6)),
        ("show", 4),
        ("show", 5),
        ("on_go_back", 1),
    ],
)
def test_killed_in_the_middle_of_writing_too(
    sick: None, tmp_path: Path, place: str, call: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, method = 0, getattr(RunFolder, place)

    def dying(self: RunFolder, *args: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == call:
            raise Killed
        return method(self, *args)

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, place, dying)
        with pytest.raises(Killed):
            run(on_collapse="switch", out=tmp_path)
    resumed = run(on_collapse="switch", out=tmp_path, resume=True)
    assert_same(resumed, reference("switch"))
    assert timeless(lines(tmp_path)) == timeless(resumed.history)


def test_a_signal_at_the_switch_leaves_a_run_that_resumes(sick: None, tmp_path: Path) -> None:
    def interrupt(event: Event) -> None:
        if isinstance(event, EpochFinished) and event.record["epoch"] == 3 and "switched_from" not in event.record:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(SearchInterrupted, match="epoch 2 of 5; continue with"):
        run(on_collapse="switch", out=tmp_path, interruptible=True, callbacks=listening(interrupt))
    assert [line["epoch"] for line in lines(tmp_path)] == [1, 2]
    assert_same(run(on_collapse="switch", out=tmp_path, resume=True), reference("switch"))


def test_a_resume_that_would_react_otherwise_is_refused(sick: None, tmp_path: Path) -> None:
    run(on_collapse="stop", out=tmp_path)
    with pytest.raises(UserError, match=r"on_collapse is 'stop', .*'warn'"):
        run(out=tmp_path, resume=True)


def test_a_lost_sound_state_is_a_sentence(sick: None, tmp_path: Path) -> None:
    with pytest.raises(Killed):
        run(on_collapse="switch", out=tmp_path, callbacks=listening(killer(EpochFinished, 3)))
    for name in ("healthy.pt", "healthy.previous.pt"):
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(UserError, match=r"healthy\.pt"):
        run(on_collapse="switch", out=tmp_path, resume=True)


@pytest.mark.parametrize(
    ("method", "space", "reaction", "sentence"),
    [
        (ag.recipes.lambda_darts(), None, "switch", "it has LayerAlignment already"),
        (ag.recipes.darts_pt(), None, "stop", "Perturbation .*choose 'warn' or 'switch'"),
        (ag.recipes.random_nas(), None, "stop", "Fixed never moves the architecture"),
        (ag.recipes.random_nas(), None, "switch", "Fixed never moves the architecture"),
        (None, ag.spaces.DARTS(channels=4, cells=3), "switch", "no two do"),
        (ag.recipes.p_darts(), None, "stop", "choose 'warn' or"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_trained(
    method: ag.Method | None, space: Any, reaction: str, sentence: str, tmp_path: Path
) -> None:
    events: list[Event] = []
    with pytest.raises(UserError, match=sentence):
        ag.search(
            space or ag.spaces.NASBench201(channels=2, cells_per_stage=1),
            method or ag.recipes.darts(),
            DATA,
            epochs=1,
            batch_size=4,
            on_collapse=reaction,
            out=tmp_path / "run",
            callbacks=listening(events.append),
        )
    assert not events
    assert not (tmp_path / "run").exists()


@dataclass(frozen=True)
class Scripted(ArchOptimizer):
    """Puts a skip connection on one edge more in every epoch, and convolutions on all others."""

    domain: ClassVar[Any] = "real"

    def init(self, alpha: Alpha, steps: int) -> ArchState:
        return {"count": {name: torch.zeros(()) for name in alpha}}

    def step(self, alpha: Alpha, gradient: Alpha, state: ArchState) -> tuple[Alpha, ArchState]:
        count = state["count"]["cell"]
        skips = torch.arange(len(alpha["cell"])) < count.div(STEPS, rounding_mode="floor")
        return {"cell": 3.0 * torch.stack([skips, ~skips], 1)}, {"count": {"cell": count + 1}}


@dataclass(frozen=True, kw_only=True)
class Edges(Tiny):
    """Cells of six edges."""

    nodes: ClassVar[int] = 4


def driven(reaction: str, **settings: Any) -> SearchResult:
    method = replace(METHOD, arch_optimizer=Scripted())
    space = Edges(channels=2, cells_per_stage=1)
    return ag.search(space, method, DATA, epochs=8, batch_size=4, on_collapse=reaction, **settings)


SHARES = [number / 6 for number in (0, 1, 2, 3, 4, 5, 6, 6)]
"""Of skip connections; the mean of three epochs is many from the fifth on, and all three most from the seventh on."""


def test_a_search_that_really_collapses_warns_of_it(caplog: pytest.LogCaptureFixture) -> None:
    result = driven("warn")
    assert [record["skip_share"] for record in result.history] == pytest.approx(SHARES)
    said = [record["diagnosis"] for record in result.history]
    first = next(place for place, verdict in enumerate(said) if verdict in ("collapsing",))
    assert first in (4, 5, 6)  # the alignment of cells on noise decides
    assert said[-1] == "collapsing"
    (message,) = (record.getMessage() for record in caplog.records)
    assert message.startswith(f"epoch {first + 1}: skip connections are")
    assert "λ-DARTS (--regularizer +layer-alignment) or GAEA (--method gaea) usually cures it" in message


def test_a_search_that_really_collapses_stops_where_it_was_sound(tmp_path: Path) -> None:
    result = driven("stop", out=tmp_path)
    assert len(result.history) < 8
    assert result.history[-1]["stopped_to"] == 4
    assert [one.choice for one in result.genotype["cell"]].count("skip_connect") == 3
    assert str(result.stopped).endswith("the architecture is that of epoch 4.")
    assert_same(driven("stop", out=tmp_path, resume=True), result)
