"""Running sums of the losses and metrics of an epoch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from archgrad.tasks.metric import widen

__all__ = ["COUNTS", "BatchMetrics", "MetricSums"]

COUNTS = {"sum": "times", "decayed": "remaining"}
"""The sums of measures, and what each is divided by for their mean."""


@dataclass(frozen=True)
class BatchMetrics:
    """The mean loss of a batch, and the total and the weight of its metrics, at the weights before the step."""

    name: str
    loss: Tensor
    ratios: Mapping[str, tuple[Tensor | float, Tensor | float]]
    count: int


class MetricSums:
    """Running sums of losses and metrics, per kind of step, and of the measures of callbacks; they restore exactly.

    Sums are tensors on the device of the weights, in 64 bits, so that no step waits for the device; :meth:`plain` and
    :meth:`means` read them.
    """

    def __init__(self) -> None:
        self.values: dict[str, Tensor | float] = {}

    def add(self, batch: BatchMetrics) -> None:
        """Add the metrics of one batch."""
        found: dict[str, Tensor | float] = {"loss": widen(batch.loss.detach()) * batch.count, "count": batch.count}
        for metric, (total, weight) in batch.ratios.items():
            found |= {f"{metric}_total": widen(total), f"{metric}_weight": widen(weight)}
        for quantity, value in found.items():
            name = f"{batch.name}_{quantity}"
            self.values[name] = self.values.get(name, 0.0) + value

    def plain(self) -> dict[str, float]:
        """Return the sums as numbers."""
        return {name: float(value) for name, value in self.values.items()}

    def restore(self, saved: Mapping[str, float]) -> None:
        """Take over saved sums."""
        self.values = dict(saved)

    def note(self, measured: Mapping[str, float], decays: Mapping[str, float] | None = None) -> None:
        """Add the measures of a callback inside the epoch; those with a decay outlast it, and lose weight instead."""
        for measure, value in measured.items():
            decay = (decays or {}).get(measure)
            total, count = ("sum", "times") if decay is None else ("decayed", "remaining")
            for name, amount in ((f"{measure}_{total}", value), (f"{measure}_{count}", 1.0)):
                self.values[name] = (1.0 if decay is None else decay) * self.values.get(name, 0.0) + amount

    def after_epoch(self) -> MetricSums:
        """Return the sums that the next epoch begins with: those that decay."""
        following = MetricSums()
        following.values = {
            name: value for name, value in self.values.items() if name.endswith(("_decayed", "_remaining"))
        }
        return following

    def means(self) -> dict[str, float]:
        """Return mean loss and metrics of each kind of step, and the mean of each measure."""
        means, values = {}, self.plain()
        for name in sorted(values):
            kind, _, quantity = name.rpartition("_")
            if quantity == "loss":
                means[f"{kind}_loss"] = values[name] / values[f"{kind}_count"]
            elif quantity == "total":
                weight = values[f"{kind}_weight"]
                mean = values[name] / weight if weight else 0.0
                means[kind.removesuffix("²")] = math.sqrt(mean) if kind.endswith("²") else mean
            elif quantity in COUNTS:
                means[kind] = values[name] / values[f"{kind}_{COUNTS[quantity]}"]
        return means

    def lazy_means(self) -> Mapping[str, float]:
        """Return the present means as a mapping that reads the device when it is first used."""
        copy = MetricSums()
        copy.values = dict(self.values)
        return _LazyMeans(copy)


class _LazyMeans(Mapping[str, float]):
    """Means that are computed on first use."""

    def __init__(self, sums: MetricSums) -> None:
        self._sums = sums

    @cached_property
    def _means(self) -> dict[str, float]:
        return self._sums.means()

    def __getitem__(self, name: str) -> float:
        return self._means[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._means)

    def __len__(self) -> int:
        return len(self._means)
