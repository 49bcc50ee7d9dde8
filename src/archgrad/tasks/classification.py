"""Classification: each example has one class."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from archgrad.errors import UserError
from archgrad.parts.fields import Positive, Probability
from archgrad.system.warn_once import warn_once
from archgrad.tasks.base import BaseTask
from archgrad.tasks.metric import KeptOutputs, Metric, Ratio

if TYPE_CHECKING:
    from archgrad.data import Data

__all__ = ["BALANCED", "TOP", "TOP5", "Classification", "constant"]

TOP, TOP5 = 5, "top5_accuracy"
"""So many guesses count, and how records call that."""
BALANCED = "balanced_accuracy"
"""How records call the mean accuracy of the classes."""
_UNEQUAL = 2
"""Classes are unequal if the largest has so many times the images of the smallest."""

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Classification(BaseTask):
    """Cross-entropy −log softmax(outputs)[target]; the metric is accuracy in per cent.

    ``label_smoothing`` ε replaces the target by 1 − ε on the class and ε / K on each of all K classes (Szegedy et al.,
    2016). ``class_weights`` has one weight for each class; the loss of a batch is their weighted mean. "balanced" is
    N / (K·n) for each class with n of the N images, so that all K classes count alike. With ``top5`` records also have
    ``top5_accuracy``: how often the class is among the five with the largest outputs. With ``balanced_accuracy``, or if
    the largest class has twice the images of the smallest, they have the mean over the classes of their accuracies.
    ``main`` is the metric by which a search judges.

    >>> Classification(label_smoothing=0.1).main_metric.name
    'accuracy'
    """

    label_smoothing: Probability = 0.0
    class_weights: tuple[Positive, ...] | Literal["balanced"] | None = None
    top5: bool = False
    balanced_accuracy: bool = False
    main: Literal["accuracy", "balanced_accuracy"] = "accuracy"

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the mean cross-entropy of outputs [B, K] with targets (int64 [B])."""
        given = self.class_weights
        if isinstance(given, str):
            raise UserError('task.class_weights is "balanced", which needs data; call task.suited_to(data) first.')
        weight = None if given is None else constant(given, outputs.dtype, outputs.device)
        return F.cross_entropy(outputs, targets, weight, label_smoothing=self.label_smoothing)

    def prediction(self, outputs: Tensor) -> Tensor:
        """Return the probabilities of the classes."""
        return outputs.softmax(1)

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """Accuracy in per cent, and that of the five best guesses and of all classes alike if they are wanted."""
        found = {"accuracy": Metric("accuracy", unit="%", best=100.0, ratio=_accuracy, proportion=True)}
        if self.top5:
            found[TOP5] = Metric(TOP5, unit="%", best=100.0, ratio=_top5_accuracy)
        if self.balanced_accuracy or self.main == BALANCED:
            whole = KeptOutputs(_class_accuracy)
            found[BALANCED] = Metric(BALANCED, unit="%", best=100.0, ratio=_balanced_accuracy, meter=whole)
        return found

    def check(self, data: Data) -> None:
        """Reject data without classes or too few for ``top5``, and class weights of another number."""
        targets, classes = data.targets, len(data.classes)
        if not classes or targets.dtype != torch.int64 or targets.dim() != 1:
            raise UserError(
                f"the targets of {data.name!r} are no classes, which the task classification needs; choose another "
                f"task (see `archgrad list tasks`), or give the data its classes and int64 targets [N]."
            )
        if self.top5 and classes <= TOP:
            raise UserError(
                f"task.top5 is true, but the data {data.name!r} has only {classes} classes, so all of the five best "
                f"guesses would be right; leave it out."
            )
        if isinstance(self.class_weights, tuple) and len(self.class_weights) != classes:
            raise UserError(
                f"task.class_weights has {len(self.class_weights)} numbers, but the data {data.name!r} has {classes} "
                f"classes; give one for each."
            )

    def suited_to(self, data: Data) -> Classification:
        """Return the task with balanced weights as numbers, and balanced accuracy if the classes are unequal."""
        counts = data.targets.bincount(minlength=len(data.classes)).clamp(min=1)
        most, least = int(counts.argmax()), int(counts.argmin())
        weights, unequal = self.class_weights, int(counts[most]) >= _UNEQUAL * int(counts[least])
        if unequal and weights is None:
            warn_once(
                _logger, "the classes of %s are unequal: %r has %d training images, and %r %d. --set "
                "task.class_weights=balanced trains them alike, and task.main=balanced_accuracy judges them alike.",
                data.name, data.classes[most], int(counts[most]), data.classes[least], int(counts[least]),
            )  # fmt: skip
        if weights == "balanced":
            weights = tuple((len(data) / (len(counts) * counts.double())).tolist())
        return replace(self, class_weights=weights, balanced_accuracy=self.balanced_accuracy or unequal)

    def chance(self, targets: Tensor) -> float:
        """Return the main metric of always naming the most common class."""
        counts = targets.bincount()
        if self.main == BALANCED:
            return 100 / int((counts > 0).sum())
        return 100 * counts.max().item() / int(counts.sum())


def _top5_accuracy(outputs: Tensor, targets: Tensor) -> Ratio:
    return (outputs.topk(TOP, 1).indices == targets[:, None]).sum(), len(targets)


def _class_accuracy(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the mean over all classes in the targets of their accuracies, in per cent."""
    counts, hits = (outputs.new_zeros(outputs.shape[1], dtype=torch.float32) for _ in range(2))
    counts.index_add_(0, targets, torch.ones_like(targets, dtype=torch.float32))
    hits.index_add_(0, targets, (outputs.argmax(1) == targets).float())
    return 100 * (hits / counts.clamp(min=1)).sum() / (counts > 0).sum()


def _balanced_accuracy(outputs: Tensor, targets: Tensor) -> Ratio:
    return _class_accuracy(outputs, targets) / 100 * len(targets), len(targets)


def _accuracy(outputs: Tensor, targets: Tensor) -> Ratio:
    return (outputs.argmax(1) == targets).sum(), len(targets)


@lru_cache(maxsize=16)
def constant(values: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return numbers as a tensor, moved to the device once."""
    return torch.tensor(values, dtype=dtype, device=device)
