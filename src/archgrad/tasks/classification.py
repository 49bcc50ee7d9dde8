"""Classification: each example has one class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from archgrad.errors import UserError
from archgrad.parts.fields import Positive, Probability
from archgrad.tasks.base import BaseTask
from archgrad.tasks.metric import Metric, Ratio

if TYPE_CHECKING:
    from archgrad.data import Data

__all__ = ["TOP", "TOP5", "Classification", "constant"]

TOP, TOP5 = 5, "top5_accuracy"
"""So many guesses count, and how records call that."""


@dataclass(frozen=True)
class Classification(BaseTask):
    """Cross-entropy −log softmax(outputs)[target]; the metric is accuracy in per cent.

    ``label_smoothing`` ε replaces the target by 1 − ε on the class and ε / K on each of all K classes (Szegedy et al.,
    2016). ``class_weights`` has one weight for each class; the loss of a batch is their weighted mean. With ``top5``
    records also have ``top5_accuracy``: how often the class is among the five with the largest outputs.

    >>> Classification(label_smoothing=0.1).main_metric.name
    'accuracy'
    """

    label_smoothing: Probability = 0.0
    class_weights: tuple[Positive, ...] | None = None
    top5: bool = False

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the mean cross-entropy of outputs [B, K] with targets (int64 [B])."""
        weight = None if self.class_weights is None else constant(self.class_weights, outputs.dtype, outputs.device)
        return F.cross_entropy(outputs, targets, weight, label_smoothing=self.label_smoothing)

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """Accuracy in per cent, and that of the five best guesses if it is wanted."""
        found = {"accuracy": Metric("accuracy", unit="%", best=100.0, ratio=_accuracy)}
        return found | ({TOP5: Metric(TOP5, unit="%", best=100.0, ratio=_top5_accuracy)} if self.top5 else {})

    def check(self, data: Data) -> None:
        """Reject data without classes or too few for ``top5``, targets outside, and class weights of another number."""
        targets, classes = data.targets, len(data.classes)
        if not classes or targets.dtype != torch.int64 or targets.dim() != 1:
            raise UserError(
                f"the targets of {data.name!r} are no classes, which the task classification needs; choose another "
                f"task (see `archgrad list tasks`), or give the data its classes and int64 targets [N]."
            )
        wrong = ((targets < 0) | (targets >= classes)).nonzero()
        if len(wrong):
            first = int(wrong[0])
            raise UserError(
                f"the target of index {first} of {data.name!r} is {int(targets[first])}, but the classes are 0 to "
                f"{classes - 1} ({len(wrong)} such targets in all); fix the targets."
            )
        if self.top5 and classes <= TOP:
            raise UserError(
                f"task.top5 is true, but the data {data.name!r} has only {classes} classes, so all of the five best "
                f"guesses would be right; leave it out."
            )
        if self.class_weights is not None and len(self.class_weights) != classes:
            raise UserError(
                f"task.class_weights has {len(self.class_weights)} numbers, but the data {data.name!r} has {classes} "
                f"classes; give one for each."
            )

    def chance(self, targets: Tensor) -> float:
        """Return the accuracy of always naming the most common class."""
        counts = targets.bincount()
        return 100 * counts.max().item() / int(counts.sum())


def _top5_accuracy(outputs: Tensor, targets: Tensor) -> Ratio:
    return (outputs.topk(TOP, 1).indices == targets[:, None]).sum(), len(targets)


def _accuracy(outputs: Tensor, targets: Tensor) -> Ratio:
    return (outputs.argmax(1) == targets).sum(), len(targets)


@lru_cache(maxsize=16)
def constant(values: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return numbers as a tensor, moved to the device once."""
    return torch.tensor(values, dtype=dtype, device=device)
