"""The result of a fit, and what is kept of its test."""

from __future__ import annotations

import builtins
import re
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from archgrad.data import ImageData
from archgrad.spaces import Cost, Genotype, NASBench201
from archgrad.tasks import ACCURACY
from archgrad.workflows import TrainedSeed, TrainResult, fit_report
from archgrad.workflows.candidates import Candidate
from archgrad.workflows.fit_report import FitResult, OverSeeds, SearchAdded, confusion, describe_test, worst
from archgrad.workflows.halving import Ranked, Round
from archgrad.workflows.select import SelectionResult
from archgrad.workflows.test_images import accuracy_interval
from tests.models.trained import model_of

SPACE = NASBench201(channels=2, cells_per_stage=1)
CELL = Genotype.parse("|nor_conv_1x1~0|+|skip_connect~0|none~1|+|none~0|none~1|skip_connect~2|")


@pytest.fixture(autouse=True)
def _no_latency(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit_report, "measure_latency", lambda *args: 0.00123)


def result_of(outputs: Tensor, targets: Tensor, classes: tuple[str, ...], channels: int = 1) -> FitResult:
    """Return a fit with these outputs, of which nothing was trained."""
    images = torch.arange(len(targets) * channels * 16).to(torch.uint8).view(-1, channels, 4, 4)
    files = tuple(f"photos/{number}.png" for number in range(len(targets)))
    tests, metric = ImageData("tests", images, targets, classes, files=files), ACCURACY
    model = replace(model_of(SPACE), classes=classes)
    history = tuple({"train_accuracy": 10.0 * number} for number in range(3))
    final = TrainResult(
        SPACE, CELL, 3, Cost(2000, 30_000), metric, (TrainedSeed(0, model, history, 61.0, None, {"accuracy": 50.0}),)
    )
    interval = accuracy_interval(int((outputs.argmax(1) == targets).sum()), len(targets))
    one = Candidate("nasbench201", str(CELL), 2, 1, 4, searched=True)
    rounds = (Round((Ranked(str(one), CELL, 81.5, 10.0, 4), Ranked("ResNet-8", CELL, 79.0, 10.5, 7)), 1),)
    return FitResult(
        model, one, SelectionResult(rounds, final, metric), SearchAdded(str(one), True, 81.5, "ResNet-8", 79.0, 10.0),
        interval, tests, outputs, {"search": 60.0, "training": 120.0}, 200.0, train_targets=targets,
    )  # fmt: skip


LABELS = torch.tensor([0, 0, 0, 1, 1, 2])
CALLED = torch.tensor([0, 1, 1, 1, 0, 2])
OUTPUTS = torch.eye(3)[CALLED] * torch.tensor([1.0, 2.0, 5.0, 1.0, 3.0, 1.0])[:, None]
NAMES = ("cat", "dog", "cow")


@pytest.mark.parametrize(("labels", "warns"), [(LABELS, True), (CALLED, False)])
def test_a_model_that_has_learned_nothing_is_told(labels: Tensor, warns: bool) -> None:
    result = result_of(OUTPUTS, labels, NAMES)
    right = 100 * float((labels == CALLED).float().mean())
    (run,) = result.selection.final.runs
    final = replace(result.selection.final, runs=(replace(run, test={"accuracy": right}),))
    result = replace(result, selection=replace(result.selection, final=final))
    assert (
        (result.warning is not None)
        == warns
        == ("no better than always predicting" in str(result.to_dict()["warning"]))
    )


def test_the_confusion_is_counted() -> None:
    found = describe_test(result_of(OUTPUTS, LABELS, NAMES))
    assert found["confusion"] == confusion(OUTPUTS, LABELS).tolist() == [[1, 2, 0], [1, 1, 0], [0, 0, 1]]
    assert (found["classes"], found["trained"], found["latency"]) == (list(NAMES), [3, 2, 1], 0.00123)


def test_the_worst_are_those_that_it_was_most_sure_of() -> None:
    result = result_of(OUTPUTS, LABELS, NAMES)
    assert worst(result) == [2, 4, 1]
    assert worst(result, 2) == [2, 4]
    found = describe_test(result)["worst"]
    told = [(one["name"], one["true"], one["called"], round(one["probability"], 2)) for one in found]
    assert told == [
        ("photos/2.png", "cat", "dog", 0.99),
        ("photos/4.png", "dog", "cat", 0.91),
        ("photos/1.png", "cat", "dog", 0.79),
    ]
    assert all(one["image"].startswith("data:image/png;base64,") for one in found)


def test_images_that_are_no_pictures_have_none() -> None:
    found = describe_test(result_of(OUTPUTS, LABELS, NAMES, channels=2))["worst"]
    assert [one["image"] for one in found] == [""] * 3


def test_it_needs_no_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without_pillow(name: str, *args: Any, **more: Any) -> Any:
        if name.startswith("PIL"):
            raise ImportError(name)
        return real(name, *args, **more)

    monkeypatch.setattr(builtins, "__import__", without_pillow)
    assert describe_test(result_of(OUTPUTS, LABELS, NAMES))["worst"][0]["image"] == ""


@pytest.mark.parametrize(
    ("own", "rivals", "words"),
    [
        ((90.0, 91.0, 92.0), (80.0, 81.5, 81.5), r"\+10.00 over 3 seeds, 95 % interval \+8.\d+ to .*is better"),
        ((80.0, 81.0, 82.0), (90.0, 91.5, 91.5), "the winner is WORSE"),
        ((90.0, 80.0, 85.0), (80.0, 90.0, 84.0), "no clear difference"),
        ((90.0,), (80.0,), "over 1 seed; one seed tells nothing"),
    ],
    ids=["better", "worse", "unclear", "one"],
)
def test_the_verdict_over_seeds(own: tuple[float, ...], rivals: tuple[float, ...], words: str) -> None:
    assert re.search(words, str(OverSeeds("ours", "theirs", own, rivals)))


def test_one_training_each_is_no_verdict() -> None:
    for added in (SearchAdded("a", True, 90.0, "b", 80.0), SearchAdded("a", False, 90.0, "b", 80.0)):
        assert "better" not in str(added)
