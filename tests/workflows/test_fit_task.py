"""Fits whose targets are no classes: several labels, numbers, and a loss of one's own."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import archgrad as ag
from archgrad.config import read_run_config
from archgrad.data import ImageData
from archgrad.errors import SearchInterrupted, UserError
from archgrad.models.classifier import LabelsPrediction, NumbersPrediction
from archgrad.report.page.fits import page_of_fit
from archgrad.tasks import Classification, Multilabel, Regression
from archgrad.workflows.test_images import image_losses, metric_interval, resampled
from tests.workflows.small_fit import PLAN, Killer, small_fit

COUNT = 70
PIXELS = torch.randint(256, (COUNT, 1, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
LIGHT = PIXELS.float().mean((2, 3))[:, 0] / 25 - 5
TARGETS = {
    "regression": LIGHT,
    "multilabel": torch.stack([(LIGHT > 0).float(), (PIXELS[:, 0, 0, 0] > 99).float(), (LIGHT > 0.2).float()], 1),
}
OWN = ag.Task(F.l1_loss, {"worst": lambda outputs, targets: (outputs - targets).abs().max()}, higher_is_better=False)
ONE = replace(PLAN, search_epochs=0, variants=0)


def images(targets: str) -> ImageData:
    """Return noise with targets of a task; each image has a file."""
    files = tuple(f"noise/{number}.png" for number in range(COUNT))
    return ImageData("noise", PIXELS, TARGETS[targets], (), files=files)


@pytest.mark.parametrize("name", TARGETS)
def test_each_task_is_fitted(tmp_path: Path, name: str) -> None:
    told: list[str] = []
    result = small_fit(images(name), task=name, out=tmp_path / "fit", compare=2, tell=told.append)
    main = {"regression": "rmse", "multilabel": "f1"}[name]
    outputs = {"regression": 1, "multilabel": 3}[name]
    assert (result.metric.name, tuple(result.outputs.shape)) == (main, (14, outputs))
    low, high = result.interval
    assert low <= result.value <= high
    assert f"56 images with {outputs} output" in told[0]
    for shown in (repr(result), result.verdict, str(result.added)):
        assert ("%" in shown.replace("95 %", "")) == (name == "multilabel")
    values = [one.value for one in result.selection.rounds[0].candidates]
    assert values == sorted(values, reverse=name == "multilabel")
    content = json.loads((tmp_path / "fit" / "fit.json").read_text())
    assert content["request"]["task"] == name
    assert (content["result"]["metric"], content["result"]["value"]) == (main, result.value)
    assert {one["metric"] for one in content["result"]["rounds"]} == {main}
    with pytest.raises(UserError, match=f"has no accuracy; value is its main metric, {main}"):
        result.accuracy  # noqa: B018 - it refuses
    config = read_run_config(tmp_path / "fit")
    assert (config.task, config.needs) == (name, ("data",))
    model = ag.Model.load(tmp_path / "fit")
    kind = {"regression": NumbersPrediction, "multilabel": LabelsPrediction}[name]
    assert isinstance(model.predict(PIXELS[:2])[0], kind)
    assert model.about["interval"] == list(result.interval)


@pytest.mark.parametrize("name", TARGETS)
def test_its_page_has_no_classes(tmp_path: Path, name: str) -> None:
    result = small_fit(images(name), task=name, out=tmp_path / "fit", plan=ONE)
    page = page_of_fit(tmp_path / "fit")
    assert (page.classes, page.confusion, page.mistakes) == ([], [], [])
    assert (
        f"reaches a test {result.metric.name} of {result.metric.show(result.value, 2)} on 14 images (95 %"
        in page.verdict
    )
    facts = dict(page.facts)
    assert facts["best constant prediction"] == result.metric.show(result.task.chance(result.tests.targets) or 0, 2)
    losses = image_losses(result.task, result.outputs, result.tests.targets)
    first = page.examples[0]
    assert first.name == result.tests.file_of(int(losses.argmax()))
    assert (first.probability, first.image[:14]) == (None, "data:image/png")
    assert len(re.findall(r"-?[\d.]+", f"{first.true} {first.called}")) == 2 * result.outputs.shape[1]
    assert page.tables[0].columns[1] == f"held-out {result.metric.name}"


def test_a_killed_fit_of_another_task_continues(tmp_path: Path) -> None:
    data, task = images("regression"), Regression(delta=0.5)
    whole = small_fit(data, task=task)
    for number, part in enumerate(("round 1 of 2: ResNet", "training the winner")):
        killer, home = Killer(part), tmp_path / str(number)
        with pytest.raises(SearchInterrupted):
            small_fit(data, task=task, out=home, interruptible=True, callbacks=[killer], tell=killer.tell)
        with pytest.raises(UserError, match=r"cannot be named in a file; .*archgrad\.resume\(DIR, data=…, task=…\)"):
            ag.resume(home)
        again = ag.resume(home, data=data, task=task)
        assert torch.equal(again.outputs, whole.outputs)
        assert (again.value, again.interval) == (whole.value, whole.interval)
        assert read_run_config(home).settings["task.delta"] == 0.5


def test_a_task_of_ones_own(tmp_path: Path) -> None:
    result = small_fit(images("regression"), task=OWN, out=tmp_path / "fit", plan=ONE)
    assert (result.metric.name, result.metric.higher_is_better) == ("worst", False)
    assert result.value == pytest.approx(float((result.outputs[:, 0] - result.tests.targets).abs().max()))
    assert "best constant prediction" not in dict(page_of_fit(tmp_path / "fit").facts)
    assert read_run_config(tmp_path / "fit").needs == ("data", "task")


def ill_shaped(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return no scalar."""
    return (outputs - targets).square()


@pytest.mark.parametrize(
    ("targets", "task", "message"),
    [
        ("regression", "multilabel", r"have the shape \[56\], but the task multilabel needs \[N, labels\]"),
        ("regression", "classification", "are no classes, which the task classification needs"),
        ("regression", "nothing", "unknown task 'nothing'"),
        ("regression", 7, "task is 7"),
        ("multilabel", Multilabel(positive_weights=(1.0, 2.0)), "has 2 numbers, but the data 'noise' has 3 labels"),
        ("regression", ag.Task(ill_shaped), "ill_shaped"),
    ],
    ids=["labels", "classes", "unknown", "number", "weights", "shape"],
)
def test_a_wrong_task_is_refused_before_anything_is_written(
    tmp_path: Path, targets: str, task: Any, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        small_fit(images(targets), task=task, out=tmp_path / "fit")
    with pytest.raises(UserError, match="task regression needs floats"):
        small_fit("digits", task="regression", out=tmp_path / "fit")
    with pytest.raises(
        UserError, match=r"the test targets are float32 \[70, 3\], but the training targets are float32"
    ):
        small_fit(images("regression"), task="regression", test=images("multilabel"), out=tmp_path / "fit")
    assert list(tmp_path.iterdir()) == []


def test_the_bootstrap_of_an_accuracy_has_the_binomial_standard_error() -> None:
    targets = torch.arange(500) % 2
    outputs = torch.eye(2)[torch.where(torch.arange(500) < 400, targets, 1 - targets)]
    metric = Classification().main_metric
    assert float(resampled(metric, outputs, targets).std()) == pytest.approx(100 * math.sqrt(0.8 * 0.2 / 500), rel=0.1)
    low, high = metric_interval(metric, outputs, targets)
    assert (round(low, 1), round(high, 1)) == (76.3, 83.3)  # Wilson's


def test_the_bootstrap_covers_a_root_of_a_mean() -> None:
    """The standard error of a standard deviation of N normal numbers is about σ / √(2N)."""
    draws = torch.randn(800, generator=torch.Generator().manual_seed(3))
    metric, zeros = Regression().main_metric, torch.zeros(800, 1)
    low, high = metric_interval(metric, zeros, draws)
    assert high - low == pytest.approx(2 * 1.96 / math.sqrt(1600), rel=0.15)
    assert low < float(draws.square().mean().sqrt()) < high
    assert metric_interval(metric, zeros, draws) == (low, high)
