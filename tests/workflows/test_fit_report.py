"""The page about a fit."""

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
from archgrad.tasks import MetricInfo
from archgrad.workflows import TrainedSeed, TrainResult, fit_report
from archgrad.workflows.candidates import Candidate
from archgrad.workflows.fit_report import FitResult, OverSeeds, SearchAdded, confusion, report_page, worst
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
    tests, model, metric = ImageData("tests", images, targets, classes), model_of(SPACE), MetricInfo()
    history = tuple({"train_accuracy": 10.0 * number} for number in range(3))
    final = TrainResult(SPACE, CELL, 3, Cost(2000, 30_000), metric, (TrainedSeed(0, model, history, 61.0),))
    interval = accuracy_interval(int((outputs.argmax(1) == targets).sum()), len(targets))
    one = Candidate("nasbench201", str(CELL), 2, 1, 4, searched=True)
    rounds = (Round((Ranked(str(one), CELL, 81.5, 10.0, 4), Ranked("ResNet-8", CELL, 79.0, 10.5, 7)), 1),)
    return FitResult(
        model, one, SelectionResult(rounds, final, metric), SearchAdded(str(one), True, 81.5, "ResNet-8", 79.0, 10.0),
        interval, tests, outputs, {"search": 60.0, "training": 120.0}, 200.0, train_targets=targets,
        asked={"command": "archgrad fit <photos>", "data": "folder:photos"},
    )  # fmt: skip


LABELS = torch.tensor([0, 0, 0, 1, 1, 2])
CALLED = torch.tensor([0, 1, 1, 1, 0, 2])
OUTPUTS = torch.eye(3)[CALLED] * torch.tensor([1.0, 2.0, 5.0, 1.0, 3.0, 1.0])[:, None]


def test_the_facts_are_right() -> None:
    page = report_page(result_of(OUTPUTS, LABELS, ("cat", "dog", "cow")))
    assert "<h1>50.00 % of 6 test images are right</h1>" in page
    assert 'name="viewport"' in page
    for fact in (
        "95 % interval: 18.76 to 81.24 %.",
        "Always naming the most common class: 50.00 %",
        "the searched cell won: 81.50 against 79.00 % of the held-out images for the best plain network (ResNet-8)",
        "searched cell, 1 cell per stage, 2 channels, 4 pixels, 3 epochs",
        "0.002 M parameters",
        "1.23 ms",
        "3.3 in all: search 1.0, training 2.0",
        "archgrad fit &lt;photos&gt;",
        "folder:photos",
        "<td>cat</td><td>3</td><td>3</td><td>33.3 %</td>",
        "<td>ResNet-8</td><td>79.00 %</td><td>7 epochs</td>",
        "over 3 epochs, from 0 to 100 %; at the end 20.0 %",
    ):
        assert fact in page


def test_the_confusion_is_counted() -> None:
    assert confusion(OUTPUTS, LABELS).tolist() == [[1, 2, 0], [1, 1, 0], [0, 0, 1]]
    page = report_page(result_of(OUTPUTS, LABELS, ("cat", "dog", "cow")))
    rows = re.findall(r"<tr><th>(\w+)</th>(<td.*?)</tr>", page)
    assert [(name, re.findall(r">(\d*)</td>", row)) for name, row in rows] == [
        ("cat", ["1", "2", ""]), ("dog", ["1", "1", ""]), ("cow", ["", "", "1"]),
    ]  # fmt: skip


def test_the_worst_are_those_that_it_was_most_sure_of() -> None:
    assert worst(OUTPUTS, LABELS) == [2, 4, 1]
    assert worst(OUTPUTS, LABELS, 2) == [2, 4]
    page = report_page(result_of(OUTPUTS, LABELS, ("cat", "dog", "cow")))
    captions = re.findall(r"<figcaption>(.*?)</figcaption>", page)
    assert captions == ["cat, called dog (99 %)", "dog, called cat (91 %)", "cat, called dog (79 %)"]
    assert page.count('src="data:image/png;base64,') == 3
    right = report_page(result_of(torch.eye(3)[LABELS], LABELS, ("cat", "dog", "cow")))
    assert "No test image is wrong." in right


def test_names_stay_text_and_nothing_is_fetched() -> None:
    names = ("<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "a" * 500)
    page = report_page(result_of(OUTPUTS, LABELS, names, channels=3))
    assert "<script" not in page.lower()
    assert "<img src=x" not in page
    assert "&lt;script&gt;" in page
    assert "a" * 31 not in page
    assert not re.search(r"<(link|iframe|object|embed|base)\b|@import|url\(", page)
    assert not re.findall(r'(?:src|href)="(?!data:|#)[^"]*"', page)


def test_many_classes_are_a_list_of_mistakes() -> None:
    names = tuple(f"<{number}>" for number in range(41))
    targets = torch.arange(41).repeat(3)
    called = targets.clone()
    called[[0, 41, 82]], called[1] = 7, 8
    page = report_page(result_of(torch.eye(41)[called], targets, names))
    assert "Rows are the true classes" not in page
    assert "<tr><td>&lt;0&gt; called &lt;7&gt;</td><td>3</td></tr><tr><td>&lt;1&gt; called &lt;8&gt;</td><td>1" in page


def test_it_needs_no_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without_pillow(name: str, *args: Any, **more: Any) -> Any:
        if name.startswith("PIL"):
            raise ImportError(name)
        return real(name, *args, **more)

    monkeypatch.setattr(builtins, "__import__", without_pillow)
    page = report_page(result_of(OUTPUTS, LABELS, ("cat", "dog", "cow")))
    assert "test image 2 (archgrad[images] draws it)" in page


def test_images_that_are_no_pictures_have_a_number() -> None:
    result = result_of(OUTPUTS, LABELS, ("cat", "dog", "cow"), channels=2)
    assert "<p>test image 2</p>" in report_page(result)


def test_a_drawing_is_part_of_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit_report, "to_svg", lambda genotype: "<svg>cell</svg>")
    result = result_of(OUTPUTS, LABELS, ("cat", "dog", "cow"))
    page = report_page(replace(result, seconds={}))
    assert "</p><svg>cell</svg></body>" in page


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
