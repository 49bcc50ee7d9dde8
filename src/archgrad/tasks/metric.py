"""Metrics: what they are called, which direction is better, and how they are computed over batches and over a set."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from archgrad.errors import UserError, shortened
from archgrad.system.devices import widened

__all__ = ["ACCURACY", "KeptOutputs", "Meter", "Metric", "MetricInfo", "as_metric", "widen"]

Ratio = tuple[Tensor | float, Tensor | float]
"""A total and its weight: the metric of several batches is the sum of totals divided by the sum of weights."""


class Meter(Protocol):
    """Computes a metric over any number of batches, as an object of torchmetrics does."""

    def reset(self) -> None:
        """Forget all batches."""

    def update(self, outputs: Tensor, targets: Tensor) -> None:
        """Add a batch."""

    def compute(self) -> Any:
        """Return the metric of all batches since the last reset."""


@dataclass(frozen=True)
class MetricInfo:
    """The name of a metric, its direction and unit, and its value for perfect predictions (None: unknown).

    >>> MetricInfo("rmse", higher_is_better=False, best=0.0).skill(0.5, chance=2.0)
    0.75
    """

    name: str = "accuracy"
    higher_is_better: bool = True
    unit: str = ""
    best: float | None = None

    def gain(self, value: float, other: float) -> float:
        """Return by how much a value is better than another."""
        return value - other if self.higher_is_better else other - value

    def skill(self, value: float, chance: float) -> float | None:
        """Return how far a value has come from chance (0) to perfect predictions (1); None where that is unknown."""
        if self.best is None or self.gain(self.best, chance) <= 0:
            return None
        return self.gain(value, chance) / self.gain(self.best, chance)

    def show(self, value: float, digits: int = 1) -> str:
        """Return a value with its unit; per cent have so many ``digits`` after the point.

        >>> ACCURACY.show(93.25, digits=2), MetricInfo("rmse").show(0.0123)
        ('93.25 %', '0.0123')
        """
        return f"{self.number(value, digits)}{self.unit and f' {self.unit}'}"

    def number(self, value: float, digits: int = 1, sign: str = "") -> str:
        """Return a value without its unit; ``sign`` "+" writes that of positive ones, too."""
        return format(value, f"{sign}.{digits}f" if self.unit == "%" else f"{sign}.4g")

    def to_record(self) -> dict[str, Any]:
        """Return what a record says of its main metric; nothing for accuracy in per cent.

        >>> MetricInfo("rmse", higher_is_better=False, best=0.0).to_record()
        {'metric': 'rmse', 'metric_direction': 'lower', 'metric_unit': '', 'metric_best': 0.0}
        """
        if self == ACCURACY:
            return {}
        direction = "higher" if self.higher_is_better else "lower"
        best = {} if self.best is None else {"metric_best": self.best}
        return {"metric": self.name, "metric_direction": direction, "metric_unit": self.unit, **best}

    @staticmethod
    def of_record(record: Mapping[str, Any]) -> MetricInfo:
        """Return the main metric of a record: accuracy, unless the record names another."""
        name, unit, best = record.get("metric"), record.get("metric_unit"), record.get("metric_best")
        if not isinstance(name, str):
            return ACCURACY
        return MetricInfo(
            name,
            record.get("metric_direction") != "lower",
            unit if isinstance(unit, str) else "",
            float(best) if isinstance(best, int | float) else None,
        )


ACCURACY = MetricInfo("accuracy", unit="%", best=100.0)
"""The main metric of classification, and of all records that name none."""


@dataclass(frozen=True)
class Metric(MetricInfo):
    """A metric and how to compute it.

    ``ratio(outputs, targets)`` is the total and the weight of a batch. The metric of several batches is the sum of the
    totals by the sum of the weights, or with ``root`` its square root, and with the unit "%" 100 times that. A metric
    for which that is not exact has a ``meter``, which computes it over a whole set. A ``proportion`` is the share of
    examples that are right.
    """

    ratio: Callable[[Tensor, Tensor], Ratio] = lambda outputs, targets: (0.0, 0.0)
    root: bool = False
    meter: Meter | None = None
    proportion: bool = False

    @property
    def info(self) -> MetricInfo:
        """The description without the functions."""
        return MetricInfo(self.name, self.higher_is_better, self.unit, self.best)

    def of_batch(self, outputs: Tensor, targets: Tensor) -> float:
        """Return the metric of one batch."""
        total, weight = (float(one) for one in self.ratio(outputs, targets))
        value = total / weight if weight else 0.0
        return (100 if self.unit == "%" else 1) * (value**0.5 if self.root else value)


class KeptOutputs:
    """A meter of a function: it keeps all outputs and targets, on the CPU, and calls the function once."""

    def __init__(self, function: Callable[[Tensor, Tensor], Any]) -> None:
        self.function = function
        self.kept: list[tuple[Tensor, Tensor]] = []

    def reset(self) -> None:
        """Forget all batches."""
        self.kept = []

    def update(self, outputs: Tensor, targets: Tensor) -> None:
        """Keep a batch."""
        self.kept.append((outputs.cpu(), targets.cpu()))

    def compute(self) -> Any:
        """Return the function of all outputs and targets."""
        outputs, targets = zip(*self.kept, strict=True)
        return self.function(torch.cat(outputs), torch.cat(targets))


def as_metric(name: str, given: Any, higher_is_better: bool | None, best: float | None) -> Metric:
    """Return a user's function or meter as a metric; the direction is by default what a meter says, or higher."""
    if isinstance(given, Metric):
        return given
    is_meter = all(callable(getattr(given, one, None)) for one in ("update", "compute", "reset"))
    if not is_meter and not callable(given):
        raise UserError(
            f"the metric {name!r} is {shortened(given)}; give a function of (outputs, targets), or an object with "
            f"update, compute and reset such as those of torchmetrics."
        )
    if higher_is_better is None:
        higher_is_better = getattr(given, "higher_is_better", None) is not False

    meter = _AdaptedMeter(given) if is_meter else KeptOutputs(given)

    def ratio(outputs: Tensor, targets: Tensor) -> Ratio:
        value = meter.of_batch(outputs, targets) if isinstance(meter, _AdaptedMeter) else given(outputs, targets)
        return _scalar(name, value) * len(targets), len(targets)

    return Metric(name, higher_is_better, "", best, ratio, meter=meter)


class _AdaptedMeter:
    """A user's meter: it is moved to the device of the outputs, and gets whole numbers if it refuses float targets.

    Most classification metrics of torchmetrics do refuse them.
    """

    def __init__(self, meter: Any) -> None:
        self.meter, self.whole = meter, False

    def reset(self) -> None:
        """Forget all batches."""
        self.meter.reset()

    def update(self, outputs: Tensor, targets: Tensor) -> None:
        """Add a batch."""
        if getattr(self.meter, "device", outputs.device) != outputs.device:
            self.meter.to(outputs.device)
        if not self.whole:
            try:
                return self.meter.update(outputs, targets)  # type: ignore[no-any-return]
            except (ValueError, RuntimeError):
                if not targets.is_floating_point():
                    raise
        self.meter.update(outputs, targets.round().long())
        self.whole = True

    def compute(self) -> Any:
        """Return the metric of all batches since the last reset."""
        return self.meter.compute()

    def of_batch(self, outputs: Tensor, targets: Tensor) -> Any:
        """Return the metric of one batch alone."""
        self.reset()
        self.update(outputs, targets)
        value = self.compute()
        self.reset()
        return value


def widen(value: Tensor | float) -> Tensor | float:
    """Return a number in 64 bits where the device has them, so that sums of many are exact."""
    return widened(value) if isinstance(value, Tensor) else float(value)


def _scalar(name: str, value: Any) -> Tensor | float:
    """Return one number, also that of a tensor with one entry; reject everything else."""
    if isinstance(value, Tensor) and value.numel() == 1 and not value.is_complex():
        return widen(value.detach().reshape(()))
    if isinstance(value, int | float):
        return float(value)
    shape = f"a tensor of shape {list(value.shape)}" if isinstance(value, Tensor) else shortened(value)
    raise UserError(f"the metric {name!r} returned {shape}; it must return one number.")
