from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from listening import EpochFinished, Event, SearchFinished, SearchStarted, StepFinished, listening

import archgrad as ag
from archgrad.loop import SearchResult

DATA = ag.data.digits(limit=64)
EPOCHS, STEPS = 2, 2


def run(**settings: object) -> SearchResult:
    space = ag.spaces.NASBench201(channels=4, cells_per_stage=1)
    return ag.search(space, ag.recipes.darts(), DATA, epochs=EPOCHS, batch_size=16, **settings)


def test_events_come_in_order() -> None:
    names: list[str] = []
    places: list[tuple[int, int]] = []

    def listen(event: Event) -> None:
        names.append(type(event).__name__)
        if isinstance(event, StepFinished):
            places.append((event.epoch, event.step))
            assert (event.state.epoch, event.state.step) == (event.epoch, event.step)
            assert {"train_loss", "train_accuracy", "arch_loss", "arch_accuracy", "alignment"} <= set(event.means)
        if isinstance(event, EpochFinished):
            assert (event.state.epoch, event.state.step) == (event.record["epoch"], 0)
            assert event.state.history[-1] == event.record
        if isinstance(event, SearchFinished):
            assert event.state.progress == 1

    run(callbacks=listening(listen))
    assert names == ["SearchStarted", *(["StepFinished"] * STEPS + ["EpochFinished"]) * EPOCHS, "SearchFinished"]
    assert places == [(epoch, step) for epoch in range(EPOCHS) for step in range(1, STEPS + 1)]


def test_the_means_of_a_step_lead_to_those_of_the_epoch() -> None:
    last: dict[str, float] = {}

    def listen(event: Event) -> None:
        if isinstance(event, StepFinished):
            last.update(event.means)
        if isinstance(event, EpochFinished):
            assert {name: event.record[name] for name in last} == last

    run(callbacks=listening(listen))
    assert last


def test_listeners_are_called_in_order_after_the_folder(tmp_path: Path) -> None:
    seen: list[str] = []

    def first(event: Event) -> None:
        seen.append("first")
        if isinstance(event, SearchStarted):
            assert (tmp_path / "checkpoint.pt").exists()
        if isinstance(event, EpochFinished):
            lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
            assert json.loads(lines[-1])["epoch"] == event.record["epoch"]
            saved = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
            assert saved["content"]["position"]["epoch"] == event.record["epoch"]
        if isinstance(event, SearchFinished):
            assert json.loads((tmp_path / "summary.json").read_text())["genotype"] == str(event.state.genotype)

    def second(event: Event) -> None:
        seen.append("second")

    run(callbacks=listening(first, second), out=tmp_path)
    assert seen == ["first", "second"] * (len(seen) // 2)


def test_a_listener_cannot_change_the_history() -> None:
    def clear(event: Event) -> None:
        if isinstance(event, EpochFinished):
            event.record.clear()

    assert [record["epoch"] for record in run(callbacks=listening(clear)).history] == [1, 2]


@pytest.mark.parametrize("kind", [SearchStarted, StepFinished, EpochFinished, SearchFinished])
def test_a_listener_that_raises_leaves_a_folder_to_resume_from(tmp_path: Path, kind: type) -> None:
    calls = 0

    def fail(event: Event) -> None:
        nonlocal calls
        calls += isinstance(event, kind)
        if calls == (2 if kind in (StepFinished, EpochFinished) else 1):
            raise ZeroDivisionError("the listener's own mistake")

    with pytest.raises(ZeroDivisionError, match="the listener's own mistake"):
        run(callbacks=listening(fail), out=tmp_path)
    assert not list(tmp_path.glob(".*"))
    resumed, whole = run(out=tmp_path, resume=True), run()
    assert resumed.genotype == whole.genotype
    assert torch.equal(resumed.alpha["cell"], whole.alpha["cell"])
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == [1, 2]
    assert json.loads((tmp_path / "summary.json").read_text())["epochs"] == EPOCHS
