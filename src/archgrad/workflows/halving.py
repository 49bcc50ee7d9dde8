"""One round of a selection: train what is left, rank it by images that trained nothing, and keep the better half."""

from __future__ import annotations

import logging
import math
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from archgrad.errors import DivergedError, UserError
from archgrad.spaces import Genotype
from archgrad.tasks import ACCURACY, MetricInfo
from archgrad.workflows.train_result import TrainResult, mean_and_deviation
from archgrad.workflows.training import Training

__all__ = ["Ranked", "Round", "hold_round", "round_sizes"]

_log = logging.getLogger("archgrad")


@dataclass(frozen=True)
class Ranked:
    """A candidate in one round: the main metric on held-out images, and the length of its trainings.

    ``test`` is the main metric on test images in each training, empty if they are not its last ones.
    """

    name: str
    genotype: Genotype
    value: float
    seconds: float
    epochs: int
    test: tuple[float, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the content of ``selection.json`` about it."""
        tested = {"test": mean_and_deviation(list(self.test))} if self.test else {}
        return {
            "name": self.name, "genotype": str(self.genotype), "heldout": self.value, "epochs": self.epochs,
            "seconds": round(self.seconds, 3), **tested,
        }  # fmt: skip


@dataclass(frozen=True)
class Round:
    """Trainings of all candidates that are left, best first by a metric; ``kept`` of them go on."""

    candidates: tuple[Ranked, ...]
    kept: int
    metric: MetricInfo = ACCURACY

    @property
    def epochs(self) -> int:
        """The epochs of the longest training."""
        return max(one.epochs for one in self.candidates)

    @property
    def seconds(self) -> float:
        """The time of the round."""
        return sum(one.seconds for one in self.candidates)

    @property
    def names(self) -> list[str]:
        """The candidates that go on, best first."""
        return [one.name for one in self.candidates[: self.kept]]

    def value_of(self, name: str) -> float | None:
        """Return the metric of a candidate, None if it was not in this round."""
        return next((one.value for one in self.candidates if one.name == name), None)

    def to_dict(self) -> dict[str, Any]:
        """Return the content of ``selection.json`` about it."""
        candidates = [one.to_dict() for one in self.candidates]
        about = {"epochs": self.epochs, "seconds": round(self.seconds, 3), "kept": self.kept}
        return {**about, **self.metric.to_record(), "candidates": candidates}


def hold_round(
    trainings: Mapping[str, Training],
    train: Callable[[str, Training], TrainResult],
    kept: int,
    part: str = "heldout",
    preferred: MetricInfo | None = None,
    known: Mapping[str, TrainResult] = MappingProxyType({}),
) -> tuple[Round, dict[str, TrainResult]]:
    """Train every candidate by its own training, and rank them; one that diverges drops out.

    ``part`` says which images of a result rank: those that its training held out, or those that were given to it as
    its "test". The ``preferred`` metric ranks where the task has it, else its main one. ``known`` results take part
    without a training. Return the results too.
    """
    results, failed = dict(known), None
    for name, training in trainings.items():
        try:
            results[name] = train(name, training)
        except DivergedError as error:
            _log.warning("%s drops out: %s", name, error)
            failed = error
    if not results:
        raise failed or UserError("there are no candidates to train; give at least one.")
    measured = [getattr(run, part) or {} for one in results.values() for run in one.runs]
    metric = next(iter(results.values())).metric
    if preferred is not None and all(preferred.name in one for one in measured):
        metric = preferred
    ranked = [_ranked(name, result, part, metric.name) for name, result in results.items()]
    return Round(tuple(sorted(ranked, key=lambda one: _order(one.value, metric))), kept, metric), results


def _ranked(name: str, result: TrainResult, part: str, metric: str) -> Ranked:
    seconds, tested = sum(run.seconds for run in result.runs), () if part == "test" else tuple(result.values("test"))
    value = statistics.fmean(result.values(part, metric))  # over the seeds
    return Ranked(name, result.genotype, value, seconds, result.epochs, tested)


def _order(value: float, metric: MetricInfo) -> float:
    """Return a number that is smaller for a better value; what is no number is last."""
    return math.inf if math.isnan(value) else metric.gain(0.0, value)


def round_sizes(count: int) -> list[int]:
    """Return how many candidates are in each round, until one is left.

    >>> round_sizes(6), round_sizes(1)
    ([6, 3, 2], [])
    """
    sizes = []
    while count > 1:
        sizes.append(count)
        count = math.ceil(count / 2)
    return sizes
