"""Regression: each example has one number or several."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from archgrad.errors import UserError
from archgrad.parts.fields import Positive
from archgrad.tasks.base import BaseTask, check_finite_targets
from archgrad.tasks.metric import Metric, Ratio

if TYPE_CHECKING:
    from archgrad.data import Data

__all__ = ["Regression"]


@dataclass(frozen=True)
class Regression(BaseTask):
    """Mean squared error; the main metric is its root over the whole set (``rmse``), where lower is better.

    Targets are floats [N] or [N, numbers]. With ``delta``, errors d larger than it count δ·(|d| − δ/2) instead of d²/2
    (Huber, 1964), so that outliers count less. ``mae`` is the mean absolute error.

    >>> Regression().main_metric.higher_is_better
    False
    """

    delta: Positive | None = None

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the mean squared error, or the mean Huber loss."""
        targets = targets.to(outputs.dtype)
        if self.delta is None:
            return F.mse_loss(outputs, targets)
        error = (outputs - targets).abs()
        return torch.where(error <= self.delta, error**2 / 2, self.delta * (error - self.delta / 2)).mean()

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """The root of the mean squared error, and the mean absolute error."""
        return {
            "rmse": Metric("rmse", False, best=0.0, ratio=_squares, root=True),
            "mae": Metric("mae", False, best=0.0, ratio=_absolutes),
        }

    def check(self, data: Data) -> None:
        """Reject targets that are not finite floats [N] or [N, numbers]."""
        targets = data.targets
        if data.classes or not targets.is_floating_point() or targets.dim() > 2 or 0 in targets.shape:
            kind = "classes" if data.classes else f"{str(targets.dtype).removeprefix('torch.')} {list(targets.shape)}"
            raise UserError(
                f"the targets of {data.name!r} are {kind}, but the task regression needs floats [N] or [N, numbers]; "
                f"choose another task or give such targets."
            )
        check_finite_targets(data.name, targets)

    def chance(self, targets: Tensor) -> float:
        """Return the error of always predicting the mean of the targets."""
        return float((targets.double() - targets.double().mean(0)).square().mean().sqrt())


def _errors(outputs: Tensor, targets: Tensor) -> Tensor:
    return outputs - targets.to(outputs.dtype)


def _squares(outputs: Tensor, targets: Tensor) -> Ratio:
    return _errors(outputs, targets).square().sum(), targets.numel()


def _absolutes(outputs: Tensor, targets: Tensor) -> Ratio:
    return _errors(outputs, targets).abs().sum(), targets.numel()
