"""A task of a user's own: a loss and metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torch import Tensor

from archgrad.errors import unknown
from archgrad.parts.fields import Count
from archgrad.parts.registry import class_path
from archgrad.tasks.base import BaseTask

if TYPE_CHECKING:
    from archgrad.data import Data

__all__ = ["Task"]


@dataclass(frozen=True)
class Task(BaseTask):
    """A loss and metrics of your own.

    ``loss(outputs, targets)`` returns a scalar. ``metrics`` maps names to functions ``(outputs, targets) -> number`` or
    to objects of torchmetrics. ``main`` names the main metric, by default the first; without metrics it is the loss,
    where lower is better. ``higher_is_better`` is the direction of all metrics, or of each by name; objects of
    torchmetrics know theirs, and otherwise higher is better.

    Three more fields are optional. ``num_outputs`` is the number of network outputs; the default is one per class or
    one per column of the targets. ``baseline(targets)`` returns the main metric of the best constant prediction, and
    ``best`` is that of perfect predictions: with both, the diagnosis can tell whether the weights have learned.

    >>> import torch.nn.functional as F
    >>> task = Task(loss=F.mse_loss, metrics={"mae": F.l1_loss}, higher_is_better=False)
    >>> task.main_metric.name, task.main_metric.higher_is_better
    ('mae', False)
    """

    loss: Callable[[Tensor, Tensor], Tensor] = field()  # type: ignore[assignment]
    metrics: Mapping[str, Any] | None = field(default=None)
    main: str | None = field(default=None)
    higher_is_better: bool | Mapping[str, bool] | None = field(default=None)
    best: float | None = field(default=None)
    num_outputs: Count | None = None
    baseline: Callable[[Tensor], float] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.main_metric  # noqa: B018 - it rejects wrong metrics and an unknown name
        for name in self.higher_is_better if isinstance(self.higher_is_better, Mapping) else ():
            if name not in self.all_metrics:
                raise unknown("metric in higher_is_better of the task:", str(name), self.all_metrics)

    def outputs(self, data: Data) -> int:
        """Return the number of network outputs: as given, or by the data."""
        return super().outputs(data) if self.num_outputs is None else self.num_outputs

    def chance(self, targets: Tensor) -> float | None:
        """Return what ``baseline`` returns."""
        return None if self.baseline is None else float(self.baseline(targets))

    @property
    def loss_name(self) -> str:
        """How an error message calls the loss."""
        return f"the loss {_name(self.loss).rpartition(':')[2]} of the task"

    @property
    def described(self) -> dict[str, Any]:
        """The names of its functions and objects, which a resume compares."""
        return {
            "part": class_path(type(self)),
            "loss": _name(self.loss),
            "metrics": {name: _name(one) for name, one in (self.metrics or {}).items()},
            "main": self.main_metric.name,
            "higher_is_better": self.main_metric.higher_is_better,
            "num_outputs": self.num_outputs,
        }


def _name(thing: Any) -> str:
    """Return ``module:name`` of a function, or of the class of an object.

    >>> _name(class_path)
    'archgrad.parts.registry:class_path'
    """
    if hasattr(thing, "__qualname__"):
        return f"{thing.__module__}:{thing.__qualname__}"
    return class_path(type(thing))
