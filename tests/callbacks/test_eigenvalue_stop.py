"""The early stop of R-DARTS: when it comes, what it returns, and that a resumed search stops alike."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from listening import Event, StepFinished, listening, measuring
from same_bits import assert_same
from tiny_space import Tiny, noise

import archgrad as ag
from archgrad.arch_optimizers import Fixed
from archgrad.callbacks import ArchCurvature, EigenvalueStop
from archgrad.config import SearchConfig
from archgrad.config.resolve import method_of
from archgrad.diagnostics import Snapshot
from archgrad.discretizers import BestSampled, Perturbation
from archgrad.errors import UserError
from archgrad.loop import SearchResult
from archgrad.recipes import darts, drnas, r_darts, random_nas

EPOCHS, STEPS = 8, 2
SPACE = Tiny(channels=2, cells_per_stage=1)
RISING = [1.0, 1.1, 1.0, 1.1, 1.2, 2.0, 2.0, 2.0]
"""With windows of two epochs λ̄ is 1.05, 1.05, 1.05, 1.15, 1.6, 2 from epoch 2 on: 1.05/1.6 < 0.75 at epoch 6."""


def stopped_at(eigenvalues: Sequence[float], rule: EigenvalueStop) -> tuple[int, int] | None:
    """Return the first epoch that the rule stops after, and the one it returns to."""
    for epoch in range(1, len(eigenvalues) + 1):
        if verdict := rule.verdict(eigenvalues[:epoch]):
            return epoch, verdict.epoch
    return None


@pytest.mark.parametrize(
    ("eigenvalues", "rule", "expected"),
    [
        (RISING, EigenvalueStop(2), (6, 4)),
        ([1, 1, 1, 1, 1, 2, 2, 2, 2, 2], EigenvalueStop(), (10, 5)),  # 1/2 < 0.75
        ([1, 1, 1, 1, 1, 2, 2, 2, 2], EigenvalueStop(), None),  # too short: the second window is not whole
        ([0.1] * 4 + [1.0] * 5, EigenvalueStop(), None),  # however steep
        ([1.0] * 30, EigenvalueStop(), None),
        ([1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2], EigenvalueStop(2), None),  # noise that the window averages
        ([1, 2, 1, 2, 1, 2], EigenvalueStop(1), (2, 1)),  # and that a window of one does not
        ([5.0, 4.0, 3.0, 2.0, 1.0, 0.5], EigenvalueStop(1), None),
        ([1.0 * 1.05**epoch for epoch in range(20)], EigenvalueStop(5), None),  # 1.05⁻⁵ = 0.78
        ([1.0 * 1.07**epoch for epoch in range(20)], EigenvalueStop(5), (10, 5)),  # 1.07⁻⁵ = 0.71
        ([0.75, 1.0], EigenvalueStop(1), None),  # not below
        ([0.74, 1.0], EigenvalueStop(1), (2, 1)),
        ([1.0, 1.01], EigenvalueStop(1, ratio=1.0), (2, 1)),  # any rise
        ([-2.0, -1.0, -0.5], EigenvalueStop(1), None),  # nothing bends upwards
        ([-1.0, 0.0], EigenvalueStop(1), None),
        ([-1.0, 0.1], EigenvalueStop(1), (2, 1)),
        ([0.0, 0.1], EigenvalueStop(1), (2, 1)),
        ([1.0, float("nan"), 9.0, 9.0], EigenvalueStop(1), None),  # what was not measured well decides nothing
    ],
)
def test_the_rule_stops_where_it_should(
    eigenvalues: list[float], rule: EigenvalueStop, expected: tuple[int, int] | None
) -> None:
    assert stopped_at(eigenvalues, rule) == expected


@pytest.mark.parametrize("warmup", [0, 1, 3, 5])
def test_a_warm_up_does_not_count(warmup: int) -> None:
    """Whatever the eigenvalues of the weights alone, the rule begins where the architecture does."""
    values = [0.01, 100.0, 1e-9, 50.0, 0.1][:warmup] + RISING
    stopped = [
        (epoch, found.epoch)
        for epoch in range(1, len(values) + 1)
        if (found := EigenvalueStop(2).verdict(values[:epoch], warmup))
    ]
    assert stopped[0] == (6 + warmup, 4 + warmup)


def test_the_reason_is_a_sentence_with_the_numbers() -> None:
    verdict = EigenvalueStop(2).verdict([1.0, 1.0, 2.0, 2.0])
    assert verdict is not None
    for told in ("after epoch 4", "from 1 to 2 ", "2 epochs each", "ratio of 0.5,", "below 0.75", "of epoch 2."):
        assert told in verdict.reason


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"window": 0}, "stop.window is 0; .*at least 1"),
        ({"steps": 1.5}, "stop.steps is 1.5; .*at least 1"),
        ({"ratio": 0.0}, "stop.ratio is 0.0; .*greater than 0"),
        ({"ratio": 1.5}, "stop.ratio is 1.5; .*at most 1"),
    ],
)
def test_bad_rules_are_explained(knobs: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        EigenvalueStop(**knobs)


def test_methods_that_could_not_stop_so_are_refused() -> None:
    rule = EigenvalueStop()
    with pytest.raises(UserError, match=r"Fixed .*leave stop out"):
        replace(random_nas(), stop=rule)
    with pytest.raises(UserError, match=r"Dirichlet .*leave stop out"):
        replace(drnas(), stop=rule)
    with pytest.raises(UserError, match=r"Perturbation .*leave stop out"):
        replace(darts(), stop=rule, discretizer=Perturbation())
    assert isinstance(random_nas().arch_optimizer, Fixed)


def scripted(epoch: list[int]) -> Any:
    """Return a measure that yields RISING; ``epoch`` counts those that are done."""

    def measure(snapshot: Snapshot) -> dict[str, float]:
        epoch[0] += 1
        return {"alpha_eigenvalue": RISING[epoch[0] - 1]}

    return measure


class Wild:
    """Stops the process' search after some step, and otherwise keeps what it was told."""

    def __init__(self, after: int | None = None) -> None:
        self.after, self.steps, self.events = after, 0, list[Event]()

    def __call__(self, event: Event) -> None:
        self.events.append(event)
        self.steps += isinstance(event, StepFinished)
        if self.steps == self.after and isinstance(event, StepFinished):
            raise KeyboardInterrupt


def found(
    out: Path | None = None, resume: bool = False, done: int = 0, after: int | None = None
) -> tuple[SearchResult, Wild]:
    """Search with an architecture that changes in every epoch, and eigenvalues that are made up."""
    heard = Wild(after)
    method = replace(darts(), stop=EigenvalueStop(window=2, steps=1), discretizer=BestSampled(samples=1))
    watched = [*listening(heard), *measuring(scripted([done]))]
    settings = {"standard_callbacks": False, "callbacks": watched, "on_collapse": "ignore"}
    result = ag.search(SPACE, method, noise(), epochs=EPOCHS, seed=3, batch_size=8, out=out, resume=resume, **settings)
    return result, heard


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[SearchResult, Path]:
    out = tmp_path_factory.mktemp("stopped") / "run"
    return found(out)[0], out


def test_a_search_stops_and_returns_the_earlier_architecture(whole: tuple[SearchResult, Path]) -> None:
    result, out = whole
    assert len(result.history) == 6
    assert [record["alpha_eigenvalue"] for record in result.history] == RISING[:6]
    genotypes = [record["genotype"] for record in result.history]
    assert genotypes[3] != genotypes[5], "the search must have moved on for this to mean anything"
    assert str(result.genotype) == genotypes[3]
    assert [record.get("stopped_to") for record in result.history] == [None] * 5 + [4]
    assert result.stopped is not None
    assert result.stopped.startswith("stopped after epoch 6: ")
    records = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert records == [dict(record) for record in result.history]
    summary = json.loads((out / "summary.json").read_text())
    assert summary["stopped"] == result.stopped
    assert summary["genotype"] == genotypes[3]
    assert ag.spaces.Genotype.parse((out / "genotype.json").read_text()) == result.genotype


def test_a_stopped_search_is_complete(whole: tuple[SearchResult, Path]) -> None:
    result, out = whole
    before = (out / "summary.json").read_text(), (out / "checkpoint.pt").read_bytes()
    again, heard = found(out, resume=True, done=6)
    assert not heard.steps
    assert_same(again, result)
    assert ((out / "summary.json").read_text(), (out / "checkpoint.pt").read_bytes()) == before


@pytest.mark.parametrize("after", [1, 5, 2 * 6 - 1, 2 * 6], ids=["first", "middle", "before the stop", "last step"])
def test_a_killed_search_stops_at_the_same_place(whole: tuple[SearchResult, Path], tmp_path: Path, after: int) -> None:
    with pytest.raises(KeyboardInterrupt):
        found(tmp_path / "run", after=after)
    done = (after - 1) // STEPS
    resumed, _ = found(tmp_path / "run", resume=True, done=done)
    assert_same(resumed, whole[0])


def test_the_real_eigenvalue_is_measured_in_every_epoch() -> None:
    method = replace(darts(), stop=EigenvalueStop(window=1, ratio=1e-9, steps=1))
    for standard in (True, False):
        settings = {"standard_callbacks": standard, "on_collapse": "ignore"}
        result = ag.search(SPACE, method, noise(), epochs=3, batch_size=8, **settings)
        assert all(isinstance(record["alpha_eigenvalue"], float) for record in result.history)


def test_a_search_does_not_count_its_warm_up() -> None:
    rises = [1.0, 9.0, 9.0, 9.0]

    def measure(snapshot: Snapshot) -> dict[str, float]:
        done.append(1)
        return {"alpha_eigenvalue": rises[len(done) - 1]}

    def stopped(warmup: int) -> list[int | None]:
        done.clear()
        method = replace(darts(), stop=EigenvalueStop(1, steps=1), schedule=ag.Schedule(warmup_epochs=warmup))
        settings = {"standard_callbacks": False, "callbacks": measuring(measure), "on_collapse": "ignore"}
        result = ag.search(SPACE, method, noise(), epochs=4, batch_size=8, **settings)
        return [record.get("stopped_to") for record in result.history]

    done: list[int] = []
    assert stopped(0) == [None, 1]
    assert stopped(1) == [None] * 4


def test_the_eigenvalue_is_the_rules_own_and_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[int] = []

    def note(point: Any, steps: int) -> float:
        measured.append(steps)
        return float(steps)

    monkeypatch.setattr("archgrad.callbacks.arch_curvature.largest_eigenvalue", note)
    method = replace(darts(), stop=EigenvalueStop(1, steps=3))
    for standard in (True, False):
        for given in ((), (ArchCurvature(7, minimum=1),)):
            measured.clear()
            settings = {"standard_callbacks": standard, "callbacks": given, "on_collapse": "ignore"}
            result = ag.search(SPACE, method, noise(), epochs=2, batch_size=8, **settings)
            assert measured == [3, 3]
            assert [record["alpha_eigenvalue"] for record in result.history] == [3.0, 3.0]
            assert ("entropy" in result.history[0]) == standard


def test_it_stops_a_search_by_any_method_as_a_callback_too() -> None:
    with pytest.raises(UserError, match=r"EigenvalueStop .*Dirichlet"):
        ag.search(SPACE, drnas(), noise(), epochs=1, callbacks=[EigenvalueStop()])


def test_the_knobs_are_on_the_command_line() -> None:
    turned = method_of(SearchConfig(method="r-darts-es", settings={"stop.ratio": "0.5", "stop.window": "3"}))
    assert turned.stop == EigenvalueStop(window=3, ratio=0.5)
    assert r_darts("es").stop == EigenvalueStop()
    with pytest.raises(UserError, match=r"stop\.ratio .*'darts' has no stop"):
        method_of(SearchConfig(method="darts", settings={"stop.ratio": "0.5"}))
    with pytest.raises(UserError, match="unknown knob of stop"):
        method_of(SearchConfig(method="r-darts-es", settings={"stop.rate": "0.5"}))


def test_the_command_says_why_it_stopped(archgrad: Any) -> None:
    knobs = ("stop.window=1", "stop.ratio=1", "stop.steps=1", "supernet.drop_path=0")
    settings = [word for knob in knobs for word in ("--set", knob)]
    code, out, err = archgrad(
        "search", "--method", "r-darts-es", "--channels", 2, "--cells", 1, "--limit", 64, "--epochs", 6,
        "--batch-size", 16, "--out", "run", *settings,
    )  # fmt: skip
    assert code == 0, err
    summary = json.loads(Path("run/summary.json").read_text())
    assert summary["stopped"] in (out + err).replace("\n", " ")
    listed = archgrad.run("list", "methods", "r-darts-es", "--space", "nasbench201")
    found = [line.split()[:2] for line in listed.splitlines()]
    assert all(row in found for row in (["stop.window", "5"], ["stop.ratio", "0.75"], ["stop.steps", "5"]))
