"""Metrics: functions and objects of a user's own, their direction, and what records say of the main one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torchmetrics.classification import MulticlassAccuracy, MulticlassF1Score, MultilabelAveragePrecision
from torchmetrics.regression import MeanSquaredError

import archgrad as ag
from archgrad.errors import UserError
from archgrad.tasks import ACCURACY, MetricInfo
from archgrad.tasks.metric import KeptOutputs, as_metric

DRAWS = torch.Generator().manual_seed(0)
OUTPUTS = torch.randn(20, 3, generator=DRAWS)
LABELS = (torch.rand(20, 3, generator=DRAWS) < 0.4).float()


def test_a_record_names_its_main_metric_unless_it_is_accuracy() -> None:
    assert ACCURACY.to_record() == {}
    assert MetricInfo.of_record({"epoch": 1}) == ACCURACY
    for info in (MetricInfo("rmse", False, best=0.0), MetricInfo("f1", unit="%"), MetricInfo("accuracy")):
        assert MetricInfo.of_record(info.to_record()) == info
    assert MetricInfo.of_record({"metric": "own", "metric_unit": None, "metric_best": None}) == MetricInfo("own")


def test_gain_and_skill_follow_the_direction() -> None:
    assert ACCURACY.gain(90, 80) == 10
    assert MetricInfo("rmse", False).gain(90, 80) == -10
    assert ACCURACY.skill(55, 10) == 0.5
    assert MetricInfo("rmse", False).skill(1, 2) is None
    assert ACCURACY.skill(100, 100) is None


def test_a_function_is_averaged_in_training_and_exact_over_a_set() -> None:
    def worst(outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs - targets).abs().max()

    metric = as_metric("worst", worst, False, None)
    assert metric.of_batch(OUTPUTS, LABELS) == float(worst(OUTPUTS, LABELS))
    meter = metric.meter
    assert isinstance(meter, KeptOutputs)
    for outputs, targets in zip(OUTPUTS.split(6), LABELS.split(6), strict=True):
        meter.update(outputs, targets)
    assert float(meter.compute()) == float(worst(OUTPUTS, LABELS))
    meter.reset()
    assert meter.kept == []


@pytest.mark.parametrize(
    ("make", "targets", "higher"),
    [
        (lambda: MultilabelAveragePrecision(num_labels=3), LABELS, True),
        (lambda: MulticlassF1Score(num_classes=3), LABELS.argmax(1), True),
        (lambda: MeanSquaredError(), LABELS.reshape(-1), False),
    ],
)
def test_an_object_of_torchmetrics_is_used_as_it_is(make: Any, targets: Tensor, higher: bool) -> None:
    outputs = OUTPUTS.reshape(-1) if not higher else OUTPUTS
    alone = make()
    alone.update(outputs, targets.long())
    expected = float(alone.compute())
    metric = as_metric("own", make(), None, None)
    assert metric.higher_is_better is higher
    assert metric.of_batch(outputs[:6], targets[:6]) != expected
    assert metric.of_batch(outputs, targets) == pytest.approx(expected, rel=1e-12)
    assert metric.meter is not None
    for one, other in zip(outputs.split(6), targets.split(6), strict=True):
        metric.meter.update(one, other)
    assert float(metric.meter.compute()) == pytest.approx(expected, rel=1e-6)


def test_the_five_best_guesses_are_counted_as_torchmetrics_does() -> None:
    outputs, targets = torch.randn(200, 12, generator=DRAWS), torch.randint(0, 12, (200,), generator=DRAWS)
    task = ag.tasks.Classification(top5=True)
    assert task.main_metric.name == "accuracy"
    for name, k in (("accuracy", 1), ("top5_accuracy", 5)):
        wanted = MulticlassAccuracy(num_classes=12, top_k=k, average="micro")(outputs, targets)
        assert task.all_metrics[name].of_batch(outputs, targets) == pytest.approx(100 * float(wanted), rel=1e-6)
    assert list(ag.tasks.Classification().all_metrics) == ["accuracy"]  # ordinary records stay as they are


def test_the_direction_may_be_given_for_each_metric() -> None:
    task = ag.Task(F.mse_loss, {"a": F.l1_loss, "b": F.mse_loss}, main="b", higher_is_better={"b": False})
    assert task.main_metric.name == "b"
    assert [metric.higher_is_better for metric in task.all_metrics.values()] == [True, False]
    assert ag.Task(F.mse_loss, {"a": F.l1_loss}, main="loss").main_metric.higher_is_better is False


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"metrics": {"f1": 3}}, "the metric 'f1' is 3; give a function"),
        ({"metrics": {"loss": F.l1_loss}}, "a metric is named 'loss'"),
        ({"metrics": {"train f1": F.l1_loss}}, "a metric is named 'train f1'"),
        ({"metrics": {3: F.l1_loss}}, "task.metrics is"),
        ({"metrics": [F.l1_loss]}, "task.metrics is"),
        ({"metrics": {"f1": F.l1_loss}, "main": "f2"}, "unknown main metric: 'f2'; did you mean 'f1'"),
        ({"metrics": {"f1": F.l1_loss}, "higher_is_better": {"f2": False}}, "unknown metric in higher_is_better"),
        ({"higher_is_better": "yes"}, "task.higher_is_better is 'yes'"),
        ({"num_outputs": 0}, "task.num_outputs is 0"),
        ({"baseline": 0.5}, "task.baseline is 0.5"),
        ({"loss": "mse"}, "task.loss is 'mse'"),
    ],
)
def test_a_wrong_task_is_refused_at_once(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError, match=told):
        ag.Task(**{"loss": F.mse_loss, **settings})
