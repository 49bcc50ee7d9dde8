"""Multi-label classification: each example has any number of labels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import torch
import torch.nn.functional as F
from torch import Tensor

from archgrad.errors import UserError
from archgrad.parts.fields import Positive, Range
from archgrad.tasks.base import BaseTask, check_finite_targets
from archgrad.tasks.classification import constant
from archgrad.tasks.metric import Metric, Ratio

if TYPE_CHECKING:
    from archgrad.data import Data

__all__ = ["Multilabel"]


@dataclass(frozen=True)
class Multilabel(BaseTask):
    """Binary cross-entropy of each label; the main metric is the F1 score over all labels in per cent.

    Targets are [N, labels] with 1 where a label applies and 0 elsewhere. F1 = 2·TP / (2·TP + FP + FN) counts the pairs
    of an example and a label together (micro average); a label is predicted where its probability is above
    ``threshold``. ``label_accuracy`` is the share of pairs that are right. ``positive_weights`` multiplies the loss of
    positive targets, one number per label.

    >>> Multilabel().main_metric.name
    'f1'
    """

    positive_weights: tuple[Positive, ...] | None = None
    threshold: Annotated[float, Range(0, 1, above=True, below=True)] = 0.5

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the mean binary cross-entropy of logits [B, labels]."""
        given = self.positive_weights
        weight = None if given is None else constant(given, outputs.dtype, outputs.device)
        return F.binary_cross_entropy_with_logits(outputs, targets.to(outputs.dtype), pos_weight=weight)

    def prediction(self, outputs: Tensor) -> Tensor:
        """Return the probabilities of the labels."""
        return outputs.sigmoid()

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """F1 and the share of labels that are right, in per cent."""
        return {
            "f1": Metric("f1", unit="%", best=100.0, ratio=self._f1),
            "label_accuracy": Metric("label_accuracy", unit="%", best=100.0, ratio=self._accuracy),
        }

    def check(self, data: Data) -> None:
        """Reject targets that are not [N, labels] with numbers from 0 to 1."""
        name, targets = data.name, data.targets
        if data.classes or targets.dim() != 2 or targets.shape[1] < 1:
            raise UserError(
                f"the targets of {name!r} have the shape {list(targets.shape)}{' and are classes' * bool(data.classes)}"
                f", but the task multilabel needs [N, labels] with 0 and 1; choose another task or give such targets."
            )
        check_finite_targets(name, targets)
        wrong = ((targets < 0) | (targets > 1)).nonzero()
        if len(wrong):
            first, label = wrong[0].tolist()
            raise UserError(
                f"the target of index {first} of {name!r} has {targets[first, label].item():g} for label {label}; the "
                f"task multilabel needs numbers from 0 to 1 ({len(wrong)} are outside)."
            )
        if self.positive_weights is not None and len(self.positive_weights) != targets.shape[1]:
            raise UserError(
                f"task.positive_weights has {len(self.positive_weights)} numbers, but the data {name!r} has "
                f"{targets.shape[1]} labels; give one for each."
            )

    def chance(self, targets: Tensor) -> float:
        """Return the F1 score of always predicting the most common labels, as many as give the highest score."""
        positives = (targets >= 0.5).sum(0).double().sort(descending=True).values
        predicted = len(targets) * torch.arange(1, len(positives) + 1, device=targets.device)
        return float((200 * positives.cumsum(0) / (predicted + positives.sum())).max())

    def _f1(self, outputs: Tensor, targets: Tensor) -> Ratio:
        predicted, actual = self._found(outputs), targets >= 0.5
        return 2 * (predicted & actual).sum(), predicted.sum() + actual.sum()

    def _accuracy(self, outputs: Tensor, targets: Tensor) -> Ratio:
        return (self._found(outputs) == (targets >= 0.5)).sum(), targets.numel()

    def _found(self, outputs: Tensor) -> Tensor:
        return outputs > math.log(self.threshold / (1 - self.threshold))
