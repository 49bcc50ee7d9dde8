"""What every task must do: its loss, its derivatives, its metrics over any batches, its baseline, and its checks."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

import archgrad as ag
from archgrad.errors import UserError
from archgrad.loop.state import BatchMetrics, MetricSums
from archgrad.parts.serialization import to_data
from archgrad.system.warn_once import forget_warnings
from archgrad.tasks import ACCURACY, TASKS, BaseTask, Classification, Multilabel, Regression

N, K = 37, 3
DRAWS = torch.Generator().manual_seed(5)
CLASSES = torch.randint(0, K, (N,), generator=DRAWS)
LABELS = (torch.rand(N, K, generator=DRAWS) < torch.tensor([0.2, 0.5, 0.7])).double()
NUMBERS = torch.randn(N, K, generator=DRAWS, dtype=torch.float64)


def entropy_of(outputs: Tensor, targets: Tensor, smooth: float = 0.0, weights: Tensor | None = None) -> Tensor:
    """Cross-entropy by its definition."""
    weights = torch.ones(K, dtype=torch.float64) if weights is None else weights
    wanted = torch.eye(K, dtype=torch.float64)[targets] * (1 - smooth) + smooth / K
    logs = outputs - outputs.exp().sum(1, keepdim=True).log()
    return -(wanted * logs * weights).sum() / weights[targets].sum()


def binary(outputs: Tensor, targets: Tensor, positive: Tensor | None = None) -> Tensor:
    positive = torch.ones(K, dtype=torch.float64) if positive is None else positive
    p = 1 / (1 + (-outputs).exp())
    return -(positive * targets * p.log() + (1 - targets) * (1 - p).log()).mean()


def huber(outputs: Tensor, targets: Tensor, delta: float) -> Tensor:
    pieces = [d * d / 2 if abs(d) <= delta else delta * (abs(d) - delta / 2) for d in (outputs - targets).flatten()]
    return torch.stack(pieces).mean()


@dataclass(frozen=True)
class Member:
    """A task with targets that suit it, its loss by definition, and constant predictions to try."""

    task: BaseTask
    targets: Tensor
    loss: Callable[[Tensor, Tensor], Tensor]
    constants: list[Tensor]


ONE_HOT = [10.0 * row for row in torch.eye(K, dtype=torch.float64)]
SETS = [torch.tensor(signs, dtype=torch.float64) for signs in product([-1.0, 1.0], repeat=K)]
NEAR = [NUMBERS.mean(0) + 0.1 * torch.randn(K, generator=DRAWS, dtype=torch.float64) for _ in range(50)]
TWO, THREE = torch.tensor([1.0, 2.0, 0.5]).double(), (1.0, 2.0, 0.5)
MEMBERS = {
    "classification": Member(Classification(), CLASSES, entropy_of, ONE_HOT),
    "smoothed": Member(Classification(0.1), CLASSES, lambda o, t: entropy_of(o, t, 0.1), ONE_HOT),
    "weighted": Member(Classification(0.2, THREE), CLASSES, lambda o, t: entropy_of(o, t, 0.2, TWO), ONE_HOT),
    "multilabel": Member(Multilabel(), LABELS, binary, SETS),
    "positive": Member(Multilabel(THREE, 0.3), LABELS, lambda o, t: binary(o, t, TWO), SETS),
    "regression": Member(
        Regression(), NUMBERS, lambda o, t: ((o - t) ** 2).mean(), [NUMBERS.mean(0), *NEAR, NUMBERS.median(0).values]
    ),
    "huber": Member(Regression(0.7), NUMBERS, lambda o, t: huber(o, t, 0.7), [NUMBERS.mean(0), *NEAR]),
    "one number": Member(
        Regression(), NUMBERS[:, 0], lambda o, t: ((o - t) ** 2).mean(), [row[:1] for row in [NUMBERS.mean(0), *NEAR]]
    ),
}


@pytest.fixture(params=list(MEMBERS))
def member(request: pytest.FixtureRequest) -> Member:
    return MEMBERS[request.param]


def outputs_of(targets: Tensor, seed: int = 0) -> Tensor:
    shape = (len(targets),) if targets.dim() == 1 and targets.is_floating_point() else (len(targets), K)
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def images_with(targets: Tensor, classes: tuple[str, ...] = ()) -> ag.data.ImageData:
    return ag.data.ImageData("toy", torch.zeros(len(targets), 1, 4, 4, dtype=torch.uint8), targets, classes)


def data_of(member: Member) -> ag.data.ImageData:
    return images_with(member.targets, ("a", "b", "c") if member.targets.dtype == torch.int64 else ())


def mean_over(task: BaseTask, outputs: Tensor, targets: Tensor, size: int) -> dict[str, float]:
    """The metrics of all examples, in batches of a size."""
    sums = MetricSums()
    for one, other in zip(outputs.split(size), targets.split(size), strict=True):
        sums.add(BatchMetrics("all", task.loss(one, other), task.ratios(one, other), len(other)))
    return {name.removeprefix("all_"): value for name, value in sums.means().items() if name != "all_loss"}


def test_every_task_is_tested_here() -> None:
    assert {TASKS.name_of(one.task) for one in MEMBERS.values()} == set(TASKS)


def test_the_loss_is_what_its_definition_says(member: Member) -> None:
    outputs = outputs_of(member.targets)
    found = member.task.loss(outputs, member.targets)
    assert found.item() == pytest.approx(member.loss(outputs, member.targets).item(), rel=1e-12)
    assert found.dim() == 0


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")  # by PyTorch itself, in forward mode
def test_the_loss_has_first_and_second_derivatives_in_both_modes(member: Member) -> None:
    targets = member.targets[:5]
    outputs = outputs_of(targets).requires_grad_()
    assert gradcheck(lambda one: member.task.loss(one, targets), (outputs,), check_forward_ad=True)
    assert gradgradcheck(lambda one: member.task.loss(one, targets), (outputs,))


def test_metrics_do_not_depend_on_the_batches(member: Member) -> None:
    outputs = outputs_of(member.targets)
    whole = mean_over(member.task, outputs, member.targets, N)
    assert list(whole) == sorted(member.task.all_metrics)
    for size in (1, 5, 36):
        assert mean_over(member.task, outputs, member.targets, size) == pytest.approx(whole, rel=1e-12)
    for name, metric in member.task.all_metrics.items():
        assert metric.of_batch(outputs, member.targets) == pytest.approx(whole[name], rel=1e-12)


def test_the_baseline_is_the_best_constant_prediction(member: Member) -> None:
    main, targets = member.task.main_metric, member.targets
    tried = []
    for constant in member.constants:
        outputs = constant.expand(len(targets), -1)
        tried.append(main.of_batch(ag.tasks.align(outputs, targets), targets))
    best = max(tried, key=lambda value: main.gain(value, 0.0))
    assert member.task.chance(targets) == pytest.approx(best, rel=1e-12)


def test_perfect_predictions_have_the_best_metric(member: Member) -> None:
    main, targets = member.task.main_metric, member.targets
    perfect = 50 * torch.eye(K).double()[targets] if targets.dtype == torch.int64 else targets
    perfect = 50 * (2 * targets - 1) if isinstance(member.task, Multilabel) else perfect
    best, other = (main.of_batch(one, targets) for one in (perfect, outputs_of(targets)))
    assert best == main.best
    assert main.gain(best, other) > 0
    assert main.skill(best, member.task.chance(targets) or 0.0) == 1


def test_the_gradient_descends_towards_the_targets(member: Member) -> None:
    main, outputs = member.task.main_metric, outputs_of(member.targets).requires_grad_()
    before = main.of_batch(outputs.detach(), member.targets)
    for _ in range(200):
        (gradient,) = torch.autograd.grad(member.task.loss(outputs, member.targets), outputs)
        outputs = (outputs - 5 * gradient).detach().requires_grad_()
    assert main.gain(main.of_batch(outputs.detach(), member.targets), before) > 0


def test_it_accepts_its_own_targets_and_counts_outputs(member: Member) -> None:
    data = data_of(member)
    member.task.check(data)
    assert member.task.outputs(data) == (1 if member.targets.dim() == 1 and not data.classes else K)


def test_its_fields_are_checked_and_describe_it(member: Member) -> None:
    again = TASKS.create(TASKS.name_of(member.task), **vars_of(member.task))
    assert to_data(again.described) == to_data(member.task.described)


def vars_of(task: BaseTask) -> dict[str, Any]:
    described = to_data(task.described)
    return {name: tuple(one) if isinstance(one, list) else one for name, one in described.items() if name != "part"}


def changed(targets: Tensor, place: Any, value: float) -> Tensor:
    targets = targets.clone()
    targets[place] = value
    return targets


ABC = ("a", "b", "c")


@pytest.mark.parametrize(
    ("task", "data", "told"),
    [
        (Classification(), images_with(LABELS), "the targets of 'toy' are no classes"),
        (
            Classification(class_weights=(1.0, 2.0)),
            images_with(CLASSES, ABC),
            "has 2 numbers, but the data 'toy' has 3",
        ),
        (
            Classification(top5=True),
            images_with(CLASSES, ABC),
            "but the data 'toy' has only 3 classes",
        ),
        (Multilabel(), images_with(CLASSES, ABC), r"have the shape \[37\] and are classes, but .* needs \[N, labels\]"),
        (Multilabel(), images_with(NUMBERS[:, 0]), r"have the shape \[37\], but"),
        (Multilabel(), images_with(changed(LABELS, (7, 2), 2)), "index 7 of 'toy' has 2 for label 2"),
        (Multilabel(), images_with(changed(LABELS, (9, 1), math.nan)), "index 9 has nan"),
        (Multilabel((1.0,)), images_with(LABELS), "has 1 numbers, but the data 'toy' has 3 labels"),
        (Regression(), images_with(CLASSES, ABC), "are classes, but the task regression needs floats"),
        (Regression(), images_with(changed(NUMBERS, (11, 0), math.inf)), r"index 11 has inf \(1 such"),
        (ag.Task(torch.nn.MSELoss()), images_with(changed(NUMBERS, 3, math.nan)), r"index 3 has nan \(3 such"),
    ],
)
def test_targets_that_do_not_suit_are_refused(task: BaseTask, data: ag.data.ImageData, told: str) -> None:
    with pytest.raises(UserError, match=told):
        task.check(data)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Classification(label_smoothing=1.0), "task.label_smoothing is 1.0"),
        (lambda: Classification(class_weights=(1.0, 0.0)), "task.class_weights is"),
        (lambda: Multilabel(threshold=0.0), "task.threshold is 0.0"),
        (lambda: Regression(delta=-1.0), "task.delta is -1.0"),
    ],
)
def test_wrong_settings_are_refused(make: Callable[[], BaseTask], told: str) -> None:
    with pytest.raises(UserError, match=told):
        make()


def test_without_any_positive_label_nothing_is_divided_by_zero() -> None:
    outputs, targets = -torch.ones(4, 2), torch.zeros(4, 2)
    assert Multilabel().main_metric.of_batch(outputs, targets) == 0
    assert Multilabel().chance(targets) == 0


@pytest.mark.parametrize("threshold", [0.3, 0.5, 0.8])
def test_labels_are_predicted_where_their_probability_is_above_the_threshold(threshold: float) -> None:
    outputs, actual = outputs_of(LABELS), LABELS.bool()
    found = torch.sigmoid(outputs) > threshold
    right, wrong = (found & actual).sum(), (found ^ actual).sum()
    metrics = Multilabel(threshold=threshold).metrics
    assert metrics["f1"].of_batch(outputs, LABELS) == pytest.approx(float(200 * right / (2 * right + wrong)))
    assert metrics["label_accuracy"].of_batch(outputs, LABELS) == pytest.approx(
        float(100 - 100 * wrong / found.numel())
    )


def test_less_is_better_in_every_metric_of_a_regression() -> None:
    assert not any(metric.higher_is_better for metric in Regression().all_metrics.values())


def test_classification_has_accuracy_and_the_bits_of_cross_entropy() -> None:
    outputs = outputs_of(CLASSES).float()
    assert Classification().main_metric.info == ACCURACY
    assert torch.equal(Classification().loss(outputs, CLASSES), torch.nn.functional.cross_entropy(outputs, CLASSES))


def test_unequal_classes_are_told_weighted_and_judged_alike(caplog: pytest.LogCaptureFixture) -> None:
    forget_warnings()
    targets = torch.tensor([0] * 12 + [1] * 3 + [2])
    data, outputs = images_with(targets, ABC), torch.eye(3)[[0] * 12 + [1, 1, 0] + [0]]
    plain = Classification().suited_to(data)
    assert all(word in caplog.text for word in ("'a' has 12 training images", "'c' 1", "task.class_weights=balanced"))
    assert (plain.class_weights, list(plain.all_metrics)) == (None, ["accuracy", "balanced_accuracy"])
    judged = Classification(class_weights="balanced", main="balanced_accuracy").suited_to(data)
    assert judged.class_weights == pytest.approx((16 / 36, 16 / 9, 16 / 3))
    assert judged.loss(outputs, targets) == torch.nn.functional.cross_entropy(
        outputs, targets, torch.tensor(judged.class_weights)
    )
    assert judged.main_metric.of_batch(outputs, targets) == pytest.approx(100 * (1 + 2 / 3 + 0) / 3)
    meter = judged.meters["balanced_accuracy"]
    for part in (slice(0, 5), slice(5, 16)):
        meter.update(outputs[part], targets[part])
    assert float(meter.compute()) == pytest.approx(100 * (1 + 2 / 3 + 0) / 3)
    assert judged.chance(targets) == pytest.approx(100 / 3)
    assert list(Classification().suited_to(images_with(torch.arange(9) % 3, ABC)).all_metrics) == ["accuracy"]
