"""Searches with other tasks than classification: records, resumes, discretizers, and losses that are wrong."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from same_bits import assert_same, dying_at
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torchmetrics.classification import MultilabelAveragePrecision

import archgrad as ag
from archgrad.config import SearchConfig
from archgrad.config.resolve import resolve
from archgrad.discretizers import BestSampled, Perturbation, SupernetEvaluation
from archgrad.errors import DivergedError, UserError
from archgrad.loop.experiment import Experiment
from archgrad.loop.measuring import evaluate_held_out, supernet_evaluation
from archgrad.loop.state import BatchMetrics, MetricSums
from archgrad.loop.step_checks import reads_are_due
from archgrad.relaxations import expand_to_cells
from archgrad.tasks import MetricInfo

DRAWS = torch.Generator().manual_seed(3)
LABELS = (torch.rand(72, 3, generator=DRAWS) < 0.4).float()
PIXELS = (60 * torch.rand(72, 1, 6, 6, generator=DRAWS) + 150 * LABELS.repeat_interleave(2, 1)[:, None, :, None]).byte()
SIZE: dict[str, Any] = {"channels": 2, "cells": 1, "epochs": 2, "batch_size": 12}


def images(targets: Tensor, classes: tuple[str, ...] = ()) -> ag.data.ImageData:
    return ag.data.ImageData("marks", PIXELS, targets, classes)


NUMBERS = LABELS @ torch.tensor([1.0, 2.0, -1.0])
DATA = {"multilabel": images(LABELS), "regression": images(NUMBERS)}


@pytest.mark.parametrize(("task", "method"), [("multilabel", "gaea"), ("regression", "darts")])
def test_a_killed_search_goes_on_to_the_same_bits(task: str, method: str, tmp_path: Path) -> None:
    data = DATA[task]
    whole = ag.search("nasbench201", method, data, task=task, **SIZE)
    steps = 5 if method == "gaea" else 3
    with pytest.raises(KeyboardInterrupt):
        ag.search("nasbench201", method, data, task=task, **SIZE, out=tmp_path / "run", callbacks=dying_at(steps + 1))
    assert_same(ag.resume(tmp_path / "run", data=data), whole)
    assert f'task = "{task}"' in (tmp_path / "run/config.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize(("task", "name"), [("multilabel", "f1"), ("regression", "rmse")])
def test_records_and_diagnosis_name_the_main_metric(task: str, name: str) -> None:
    result = ag.search("nasbench201", "darts", DATA[task], task=task, **(SIZE | {"held_out": 0.4}))
    record = result.history[-1]
    kinds = ("train", "arch", "heldout", "mixture", "discrete")
    assert {f"{kind}_{name}" for kind in kinds} <= record.keys()
    assert not any("accuracy" in key for key in record if key.rpartition("_")[0][-5:] != "label")
    assert record["metric"] == name
    assert record["heldout_chance"] > 0
    assert result.supernet.body.classifier.out_features == (3 if task == "multilabel" else 1)
    assert f"held-out {name} is" in str(result.diagnosis)


def setup_of(task: Any, data: ag.data.ImageData, **more: Any) -> Experiment:
    config = SearchConfig(
        space="nasbench201", method="gaea", data=data, task=task, **(SIZE | {"held_out": 0.4}), **more
    )
    return Experiment.of(resolve(config), config.load_data())


def test_metrics_of_the_held_out_set_are_exact_over_all_of_it() -> None:
    """A maximum and an average precision are no means over batches."""

    def worst(outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs - targets).abs().max()

    precision = MultilabelAveragePrecision(num_labels=3)
    task = ag.Task(F.binary_cross_entropy_with_logits, {"map": precision, "worst": worst})
    setup = setup_of(task, DATA["multilabel"])
    state = setup.initial_state()
    loader = setup.held_out_loader
    assert loader is not None
    assert loader.steps > 1
    seen: list[tuple[Tensor, Tensor]] = []
    stepper = setup.stepper(state)

    def plain(weights: Any, inputs: Tensor, *rest: Any, **extra: Any) -> Tensor:
        seen.append((stepper.losses.plain(weights, inputs, *rest, **extra), loader.batch(len(seen)).targets))
        return seen[-1][0]

    found = evaluate_held_out(replace(stepper.losses, plain=plain), state, loader)
    outputs, targets = (torch.cat(parts) for parts in zip(*seen, strict=True))
    assert found["heldout_worst"] == pytest.approx(float(worst(outputs, targets)))
    alone = MultilabelAveragePrecision(num_labels=3)
    assert found["heldout_map"] == pytest.approx(float(alone(outputs, targets.long())))
    assert "heldout_chance" not in found


def test_targets_that_are_no_classes_are_split_at_random() -> None:
    one, other = (setup_of("regression", DATA["regression"], seed=seed) for seed in (0, 1))
    indices = [setup.weight_loader.indices for setup in (one, other)]
    assert len(indices[0]) + len(one.held_out_loader.indices) == 72  # type: ignore[union-attr]
    assert not torch.equal(*indices)


def test_an_evaluation_measures_the_main_metric() -> None:
    setup = setup_of("regression", DATA["regression"])
    state = setup.initial_state()
    evaluation = supernet_evaluation(setup, state)
    assert evaluation.info == MetricInfo("rmse", False, best=0.0)
    mixture = expand_to_cells(setup.blocks, setup.method.relaxation.probabilities(setup.blocks, state.alpha))
    assert evaluation.score(mixture, 0) == -evaluation.metric(mixture, 0) < 0


# --- discretizers choose by the direction


def distance(space: Any, wanted: ag.Genotype, info: MetricInfo) -> SupernetEvaluation:
    """Return an evaluation whose metric counts how far an architecture is from another one, or how near."""
    target = space.one_hot(wanted)

    def metric(mixture: Mapping[str, Tensor], batch: int) -> float:
        alike = float(sum((mixture[name] * target[name]).sum() for name in target))
        return alike if info.higher_is_better else -alike

    return SupernetEvaluation(metric, torch.Generator().manual_seed(0), info=info)


@pytest.mark.parametrize("discretizer", [BestSampled(samples=60), Perturbation(tune_epochs=0)])
def test_discretizers_find_the_same_by_a_metric_and_by_its_opposite(discretizer: Any) -> None:
    space = ag.spaces.NASBench201(cells_per_stage=1)
    even = {block.name: block.mask / block.mask.sum(-1, keepdim=True) for block in space.blocks}
    wanted = ag.Genotype.parse(
        "|nor_conv_3x3~0|+|none~0|skip_connect~1|+|avg_pool_3x3~0|nor_conv_1x1~1|nor_conv_3x3~2|"
    )
    found = [
        discretizer.select(space, even, distance(space, wanted, MetricInfo("own", higher))) for higher in (True, False)
    ]
    assert found[0] == found[1]
    if isinstance(discretizer, Perturbation):
        assert found[0] == wanted


def test_a_metric_that_is_not_a_number_cannot_choose() -> None:
    space = ag.spaces.NASBench201(cells_per_stage=1)
    even = {block.name: block.mask / block.mask.sum(-1, keepdim=True) for block in space.blocks}
    evaluation = SupernetEvaluation(lambda mixture, batch: math.nan, torch.Generator(), info=MetricInfo("auroc"))
    with pytest.raises(UserError, match="the metric 'auroc' of an architecture is NaN on batch 0"):
        BestSampled(samples=2).select(space, even, evaluation)


# --- losses that are wrong


def broken(outputs: Tensor, targets: Tensor) -> Tensor:
    raise KeyError("missing")


@pytest.mark.parametrize(
    ("loss", "told"),
    [
        (lambda o, t: F.mse_loss(o, t, reduction="none"), r"<lambda> of the task returned a tensor of shape \[12, 3\]"),
        (lambda o, t: 0.5, "returned an object of type float; it must return a tensor without dimensions"),
        (lambda o, t: ((o > 0) == (t > 0)).sum(), r"shape \[\] and type int64"),
        (lambda o, t: F.mse_loss(o.detach(), t), "does not depend on the outputs, so the weights cannot learn"),
        (lambda o, t: F.mse_loss(o, t).log().sqrt() * math.nan, "is nan for normally distributed outputs"),
        (broken, r"broken of the task fails for outputs \[12, 3\] and targets \[12, 3\]: KeyError"),
        (lambda o, t: F.mse_loss(o, t[:, :2]), "fails for outputs .*: RuntimeError"),
    ],
)
@pytest.mark.filterwarnings("ignore:Using a target size:UserWarning")
def test_a_wrong_loss_is_named_before_anything_is_trained(loss: Any, told: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=told):
        ag.search("nasbench201", "darts", DATA["multilabel"], task=ag.Task(loss), **SIZE, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("metric", "told"),
    [
        (lambda o, t: (o - t).mean(0), r"the metric 'own' returned a tensor of shape \[3\]; it must return one number"),
        (lambda o, t: "good", "the metric 'own' returned 'good'"),
        (broken, "the metric 'own' fails for"),
    ],
)
def test_a_wrong_metric_is_named_before_anything_is_trained(metric: Any, told: str) -> None:
    with pytest.raises(UserError, match=told):
        ag.search("nasbench201", "darts", DATA["multilabel"], task=ag.Task(F.mse_loss, {"own": metric}), **SIZE)


class Turning:
    """A loss that turns wrong after some calls, as after a change of its data."""

    def __init__(self, wrong: Callable[[Tensor, Tensor], Any] | None = None, after: int = 13) -> None:
        self.wrong, self.after, self.calls = wrong, after, 0

    def __call__(self, outputs: Tensor, targets: Tensor) -> Any:
        self.calls += 1
        wrong = self.wrong is not None and self.calls > self.after
        return self.wrong(outputs, targets) if wrong else F.mse_loss(outputs, targets)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("wrong", "error", "told"),
    [
        (lambda o, t: o - t, UserError, r"the loss Turning of the task returned a tensor of shape"),
        (lambda o, t: F.mse_loss(o, t) * math.nan, DivergedError, "loss became nan at step"),
    ],
)
def test_a_run_whose_loss_turns_wrong_can_be_resumed(wrong: Any, error: type, told: str, tmp_path: Path) -> None:
    data, size = DATA["multilabel"], SIZE | {"epochs": 3}
    whole = ag.search("nasbench201", "darts", data, task=ag.Task(Turning()), **size)
    with pytest.raises(error, match=told):
        ag.search("nasbench201", "darts", data, task=ag.Task(Turning(wrong)), **size, out=tmp_path / "run")
    with pytest.raises(UserError, match=r"searched with data and task that cannot be named .* data=…, task=…"):
        ag.resume(tmp_path / "run")
    assert_same(ag.resume(tmp_path / "run", data=data, task=ag.Task(Turning())), whole)


def test_a_resume_with_another_task_is_refused(tmp_path: Path) -> None:
    data, out = DATA["multilabel"], tmp_path / "run"
    ag.search("nasbench201", "darts", data, task=ag.Task(F.mse_loss), **SIZE, out=out)
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    assert summary["task"]["loss"].endswith(":mse_loss")
    for other in (ag.Task(F.l1_loss), ag.tasks.Multilabel()):
        with pytest.raises(UserError, match=r"belongs to another search: its task"):
            ag.resume(out, data=data, task=other)
    plain = tmp_path / "plain"
    classes = images(LABELS[:, 0].long(), ("no", "yes"))
    ag.search("nasbench201", "darts", classes, **SIZE, out=plain)
    with pytest.raises(UserError, match=r"belongs to another search: its task"):
        ag.resume(plain, data=classes, task=ag.tasks.Classification(label_smoothing=0.1))


# --- nothing is read from the device in a step


class NoReads(TorchDispatchMode):
    """Fails where a tensor becomes a number of Python."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert function is not torch.ops.aten._local_scalar_dense.default, "the device is read"
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("task", [ag.tasks.Classification(0.1, (1.0, 2.0, 3.0)), ag.tasks.Multilabel((1.0, 1.0, 2.0))])
def test_sums_of_metrics_are_not_read_before_they_are_needed(task: Any) -> None:
    outputs, sums = torch.randn(8, 3, generator=DRAWS), MetricSums()
    targets = LABELS[:8] if isinstance(task, ag.tasks.Multilabel) else LABELS[:8].argmax(1)
    with NoReads():
        for _ in range(3):
            sums.add(BatchMetrics("train", task.loss(outputs, targets), task.ratios(outputs, targets), 8))
        means = sums.lazy_means()
    expected = sums.means()
    sums.add(BatchMetrics("train", torch.tensor(1e6), task.ratios(outputs, targets), 8))
    assert dict(means) == expected
    assert len(means) == len(expected)
    with NoReads(), pytest.raises(AssertionError, match="the device is read"):
        dict(sums.lazy_means())


def test_sums_work_on_any_device() -> None:
    """A device that holds no numbers could not be read."""
    sums, outputs = MetricSums(), torch.empty(8, 3, device="meta")
    targets = torch.empty(8, dtype=torch.int64, device="meta")
    task = ag.tasks.Classification()
    sums.add(BatchMetrics("train", task.loss(outputs, targets), task.ratios(outputs, targets), 8))
    assert sums.values["train_loss"].dtype == torch.float64  # type: ignore[union-attr]


def test_a_device_other_than_the_cpu_is_read_every_20_steps() -> None:
    class State:
        device, steps, step = torch.device("meta"), 50, 0

    state: Any = State()
    read = []
    for state.step in range(50):
        read += [state.step + 1] if reads_are_due(state) else []
    assert read == [1, 21, 41, 50]
    state.device = torch.device("cpu")
    assert all(reads_are_due(state) for state.step in range(50))
