"""The family of tasks: what the network predicts, its loss, its metrics, and which of them is the main one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from torch import Tensor

from archgrad.errors import UserError, shortened, unknown
from archgrad.parts.fields import check_fields
from archgrad.parts.registry import class_path
from archgrad.tasks.metric import Meter, Metric, Ratio, as_metric, widen

if TYPE_CHECKING:
    from archgrad.data import Data

__all__ = ["BaseTask", "align", "check_finite_targets"]

_RESERVED = ("loss", "chance", "images", "count")
"""Names that records use beside those of metrics."""
_CACHED = ("all_metrics", "main_metric", "meters")


class BaseTask:
    """Override ``loss``, and what else the task needs.

    ``loss(outputs, targets)`` gets the outputs [B, K] of the network and the targets of the batch; it returns a scalar
    that is differentiable in the outputs. With one output and targets [B], outputs are [B] too. ``metrics`` maps names
    to functions of the same arguments, to objects of torchmetrics, or to :class:`~archgrad.tasks.Metric`. ``main``
    names the metric by which a search judges; the default is the first one, or the loss if there are none.
    """

    def __post_init__(self) -> None:
        check_fields(self, "task.{}")

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of a batch, a scalar."""
        raise NotImplementedError(f"{type(self).__name__} has no loss")

    def prediction(self, outputs: Tensor) -> Tensor:
        """Return what outputs [B, K] say to people: numbers like the targets, or probabilities."""
        return outputs

    @property
    def metrics(self) -> Mapping[str, Any] | None:
        """The metrics by name; None: the loss alone."""
        return None

    @property
    def main(self) -> str | None:
        """The name of the main metric; None: the first one, or the loss."""
        return None

    @property
    def higher_is_better(self) -> bool | Mapping[str, bool] | None:
        """The direction of all metrics or of each; None: what an object of torchmetrics says, otherwise higher."""
        return None

    @property
    def best(self) -> float | None:
        """The main metric of perfect predictions; None if it is unknown."""
        return None

    def outputs(self, data: Data) -> int:
        """Return the number of network outputs for this data: one per class, or one per column of the targets."""
        if data.classes:
            return len(data.classes)
        return 1 if data.targets.dim() == 1 else int(data.targets.shape[1])

    def check(self, data: Data) -> None:
        """Raise a UserError, before any training, if the targets of the data do not suit the task."""
        check_finite_targets(data.name, data.targets)

    def suited_to(self, data: Data) -> BaseTask:
        """Return the task with all that depends on the data filled in."""
        return self

    def chance(self, targets: Tensor) -> float | None:
        """Return the main metric of the best constant prediction for these targets; None if it is unknown."""
        return None

    @property
    def described(self) -> Any:
        """What the identity of a search says of the task: by default its class and its fields."""
        if is_dataclass(self):
            return self
        kept = {name: value for name, value in vars(self).items() if name not in _CACHED}
        return {"part": class_path(type(self)), **kept}

    @property
    def loss_name(self) -> str:
        """How an error message calls the loss."""
        return f"{type(self).__name__}.loss"

    @cached_property
    def all_metrics(self) -> dict[str, Metric]:
        """The metrics that records have beside the loss."""
        given = self.metrics or {}
        if not isinstance(given, Mapping):
            raise UserError(f"metrics of the task is {shortened(given)}; give functions or objects by name.")
        for name in given:
            if not isinstance(name, str) or not name.isidentifier() or name in _RESERVED or len(name) > 50:
                raise UserError(
                    f"a metric is named {shortened(name)}; give a name of letters, digits and underscores that is not "
                    f"{', '.join(_RESERVED[:-1])} or {_RESERVED[-1]}."
                )
        first = self.main or next(iter(given), None)
        return {
            name: as_metric(name, one, self._direction(name), self.best if name == first else None)
            for name, one in given.items()
        }

    def _direction(self, name: str) -> bool | None:
        given = self.higher_is_better
        return given.get(name) if isinstance(given, Mapping) else given

    @cached_property
    def main_metric(self) -> Metric:
        """The metric by which a search judges architectures and its own health."""
        name = self.main or next(iter(self.all_metrics), "loss")
        if name == "loss":
            return Metric("loss", False, best=self.best, ratio=self._weighted_loss)
        if name not in self.all_metrics:
            raise unknown("main metric:", str(name), [*self.all_metrics, "loss"])
        return self.all_metrics[name]

    def _weighted_loss(self, outputs: Tensor, targets: Tensor) -> Ratio:
        return widen(self.loss(outputs, targets)) * len(targets), len(targets)

    def ratios(self, outputs: Tensor, targets: Tensor, exact: bool = False) -> dict[str, Ratio]:
        """Return total and weight of every metric of a batch, by ``NAME`` or, for the root of a mean, ``NAME²``.

        Totals of per cent are multiplied by 100. ``exact`` leaves out the metrics that need a meter.
        """
        found = {}
        for name, metric in self.all_metrics.items():
            if not (exact and metric.meter):
                total, weight = metric.ratio(outputs, targets)
                scale = 100 if metric.unit == "%" else 1
                found[f"{name}²" if metric.root else name] = (scale * total, weight)
        return found

    @cached_property
    def meters(self) -> dict[str, Meter]:
        """The metrics that are exact only over a whole set, and what computes them."""
        return {name: metric.meter for name, metric in self.all_metrics.items() if metric.meter}


def align(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return outputs [B, 1] as [B] if the targets are [B]: otherwise their difference would be [B, B]."""
    return outputs.squeeze(1) if targets.dim() == 1 and outputs.shape[1:] == (1,) else outputs


def check_finite_targets(name: str, targets: Tensor) -> None:
    """Reject targets with NaN or infinity; name the first."""
    wrong = (~targets.isfinite()).nonzero() if targets.is_floating_point() else targets.new_zeros(0, 1)
    if len(wrong):
        value = targets[tuple(wrong[0])].item()
        raise UserError(
            f"the data {name!r} has a target that is not finite: that of index {int(wrong[0, 0])} has {value} "
            f"({len(wrong)} such numbers in all); fix the targets."
        )
