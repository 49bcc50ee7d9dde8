"""The result of a fit: a model, and what is known about it."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch
from torch import Tensor

from archgrad.data import Data
from archgrad.errors import UserError
from archgrad.models import Model
from archgrad.report import to_svg
from archgrad.spaces import Genotype
from archgrad.spaces.cost import measure_latency
from archgrad.system.amounts import counted
from archgrad.tasks import ACCURACY, BaseTask, Classification, MetricInfo
from archgrad.tasks.classification import BALANCED
from archgrad.workflows.candidates import Candidate
from archgrad.workflows.halving import Round
from archgrad.workflows.select import SelectionResult
from archgrad.workflows.test_images import image_losses

__all__ = ["FitResult", "OverSeeds", "SearchAdded", "confusion", "describe_test", "worst"]

_SHOWN, _NUMBERS = 12, 8
"""So many of the worst examples are kept, and so many numbers of each."""


@dataclass(frozen=True)
class SearchAdded:
    """What the search added: the held-out metric of the winner and its best rival in the last round of both.

    The ``rival`` of a searched winner is the best plain network, that of a plain winner the searched cell, or the best
    other network if nothing was ``searched``; None if there is none. In their round all trainings took the same time.
    """

    winner: str
    is_searched: bool
    value: float | None = None
    rival: str | None = None
    rival_value: float | None = None
    seconds: float = 0.0
    searched: bool = True
    metric: MetricInfo = ACCURACY

    @classmethod
    def of(
        cls, rounds: Sequence[Round], networks: Sequence[Candidate], winner: Candidate, searched: bool
    ) -> SearchAdded:
        """Find the last round in which the winner and a network of the other kind have competed."""
        others = {str(one) for one in networks if one.network != winner.network}
        others -= {str(one) for one in networks if one.searched == winner.searched} if searched else set()
        name = next(str(one) for one in networks if one.network == winner.network)
        for done in reversed(rounds):
            value, rival = done.value_of(name), next((one for one in done.candidates if one.name in others), None)
            if value is not None and rival is not None:
                return cls(name, winner.searched, value, rival.name, rival.value, rival.seconds, searched, done.metric)
        return cls(name, winner.searched, searched=searched)

    def __str__(self) -> str:
        if self.value is None or self.rival_value is None:
            return f"{self.winner} won; there was {'nothing to compare it with' if self.searched else 'no search'}"
        both = f"{self.metric.number(self.value, 2)} against {self.metric.show(self.rival_value, 2)}"
        both += " on the held-out images"
        each = f"after {self.seconds:.0f} seconds of training each"
        if not self.searched:
            return f"there was no search; {self.winner} won: {both} for {self.rival}, {each}"
        if self.is_searched:
            return f"the searched cell won: {both} for the best plain network ({self.rival}), {each}"
        return f"a plain network won ({self.winner}): {both} for the searched cell, {each}; the search added nothing"


@dataclass(frozen=True)
class OverSeeds:
    """Test accuracies of the winner and its rival, one for each training seed, all trained for the same time.

    They are values of the ``metric``, the main one of the task, whatever it is.
    """

    winner: str
    rival: str
    accuracies: tuple[float, ...]
    rivals: tuple[float, ...]
    metric: MetricInfo = ACCURACY

    @property
    def differences(self) -> list[float]:
        """Winner minus rival, seed by seed."""
        return [own - other for own, other in zip(self.accuracies, self.rivals, strict=True)]

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the mean difference over seeds (Student's t); None for one seed."""
        if len(self.differences) < 2:
            return None
        from scipy.stats import t

        mean, count = fmean(self.differences), len(self.differences)
        half = float(t.ppf(0.975, count - 1)) * stdev(self.differences) / count**0.5
        return mean - half, mean + half

    def __str__(self) -> str:
        values = f"{self.metric.number(fmean(self.accuracies), 2)} against {self.metric.show(fmean(self.rivals), 2)}"
        mean, *ends = (self.metric.number(one, 2, "+") for one in (fmean(self.differences), *(self.interval or ())))
        seeds = counted(len(self.rivals), "seed")
        difference = f"{values} for {self.rival}: a difference of {mean} over {seeds}"
        if self.interval is None:
            return f"{difference}; one seed tells nothing about its chance"
        least, most = sorted(self.metric.gain(one, 0.0) for one in self.interval)
        word = "the winner is better" if least > 0 else "the winner is WORSE" if most < 0 else "no clear difference"
        return f"{difference}, 95 % interval {' to '.join(ends)}: {word}"

    def to_dict(self) -> dict[str, Any]:
        """Return the content of ``fit.json`` about it."""
        return {
            "winner": self.winner, "rival": self.rival, "accuracies": list(self.accuracies),
            "rivals": list(self.rivals), "difference": fmean(self.differences), "interval": self.interval,
            "verdict": str(self),
        }  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class FitResult:
    """A model for the images, and what is known about it.

    ``candidate`` is the winner of the ``selection``, whose ``final`` is the last training, and ``added`` what the
    search has added. ``outputs`` [N, K] are those on the ``tests``, which trained and chose nothing. ``interval`` is
    the 95 % interval of ``value``, the main metric of the ``task``. ``seconds`` are those of each part, ``total`` all
    of them. ``over_seeds`` compares with a rival over several training seeds, None if it was not wanted. ``files`` are
    those of the ``target``.
    """

    model: Model
    candidate: Candidate
    selection: SelectionResult
    added: SearchAdded
    interval: tuple[float, float]
    tests: Data
    outputs: Tensor
    seconds: dict[str, float]
    total: float = 0.0
    folder: Path | None = None
    over_seeds: OverSeeds | None = None
    train_targets: Tensor | None = None
    files: tuple[str, ...] = ()
    task: BaseTask = field(default_factory=Classification)

    @property
    def genotype(self) -> Genotype:
        """The architecture."""
        return self.selection.genotype

    @property
    def metric(self) -> MetricInfo:
        """The main metric of the task."""
        return self.selection.metric

    @property
    def value(self) -> float:
        """The main metric on the test images."""
        return self.selection.final.values("test")[0]

    @property
    def accuracy(self) -> float:
        """The accuracy on the test images in per cent, if the task has it."""
        if "accuracy" not in self._measured:
            raise UserError(f"the task has no accuracy; value is its main metric, {self.metric.name}.")
        return self._measured["accuracy"]

    @property
    def _measured(self) -> Mapping[str, float]:
        return self.selection.final.runs[0].test or {}

    @property
    def verdict(self) -> str:
        """What won, and what the search added."""
        return str(self.added if self.over_seeds is None else self.over_seeds)

    @property
    def warning(self) -> str | None:
        """What says that the model has learned nothing, None if it is better than the best constant prediction."""
        chance = self.task.chance(self.tests.targets)
        if chance is None or self.metric.gain(self.value, chance) > 0:
            return None
        return (
            f"the model is no better than always predicting the same ({self.metric.show(chance, 2)}): give the fit "
            f"more time, or more images"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the content of ``fit.json``'s result."""
        names = ("channels", "depth", "epochs", "parameters", "multiply_adds")
        final = self.selection.final.to_dict()
        return {
            **self.metric.to_record(),
            "value": self.value,
            **{name: self._measured.get(name) for name in ("accuracy", BALANCED)},
            "interval": list(self.interval),
            "test_images": len(self.tests),
            "network": str(self.candidate),
            "genotype": str(self.genotype),
            **{name: final[name] for name in names},
            "added": str(self.added),
            "rounds": [one.to_dict() for one in self.selection.rounds],
            "compared": None if self.over_seeds is None else self.over_seeds.to_dict(),
            "verdict": self.verdict,
            "warning": self.warning,
            "seconds": {name: round(one, 1) for name, one in self.seconds.items()},
            "total": round(self.total, 1),
        }

    def __repr__(self) -> str:
        return f"<FitResult {self._summary}>"

    def _repr_html_(self) -> str:
        """Return a few lines and the drawn cell for notebooks."""
        return f"<p><b>FitResult</b>: {escape(self._summary)}</p><p>{escape(self.verdict)}</p>{to_svg(self.genotype)}"

    @property
    def _summary(self) -> str:
        low, high = (self.metric.number(one, 2) for one in self.interval)
        value = f"{self.metric.name} {self.metric.show(self.value, 2)} ({low} to {high})"
        return f"{value} on {len(self.tests):,} test images, {self.candidate}"


def confusion(outputs: Tensor, targets: Tensor) -> Tensor:
    """Count how often class i (row) was called class j (column).

    >>> confusion(torch.eye(2)[[0, 1, 1]], torch.tensor([0, 0, 1]))
    tensor([[1, 1],
            [0, 1]])
    """
    classes = outputs.shape[1]
    return (classes * targets + outputs.argmax(1)).bincount(minlength=classes**2).view(classes, classes)


def worst(result: FitResult, count: int = _SHOWN) -> list[int]:
    """Return the numbers of the test images with the largest loss; where they have classes, of the wrong ones."""
    outputs, targets = result.outputs, result.tests.targets
    order = image_losses(result.task, outputs, targets).argsort(descending=True, stable=True)
    return (order[outputs.argmax(1)[order] != targets[order]] if _names(result) else order)[:count].tolist()


def describe_test(result: FitResult) -> dict[str, Any]:
    """Return what ``fit.json`` keeps about the test for the page: chance, the worst examples, latency, classes."""
    data, trained = result.tests, result.train_targets
    found = {
        "chance": result.task.chance(data.targets),
        "worst": [_example(result, one) for one in worst(result)],
        "latency": measure_latency(result.model.network, data.channels, data.image_size),
    }
    if not (names := _names(result)):
        return found
    counts = (torch.zeros(0) if trained is None else trained).long().bincount(minlength=len(names))
    table = confusion(result.outputs, data.targets)
    return {**found, "classes": list(names), "trained": counts.tolist(), "confusion": table.tolist()}


def _names(result: FitResult) -> tuple[str, ...]:
    """Return the classes, if each output of the network is one."""
    names = result.model.classes if result.tests.classes else ()
    return names if result.outputs.shape[1] == len(names) else ()


def _example(result: FitResult, number: int) -> dict[str, Any]:
    """Return a test image, what it is and what it was called, or its targets and what was predicted."""
    data, names = result.tests, _names(result)
    found, target = result.task.prediction(result.outputs[number][None])[0], data.targets[number]
    name = (data.file_of(number) or f"test image {number}").encode("utf-8", "backslashreplace").decode()
    told: dict[str, Any] = {"true": _numbers(target), "called": _numbers(found)}
    if names:
        told = {"true": names[int(target)], "called": names[int(found.argmax())]}
        told["probability"] = round(float(found.max()), 4)
    return {**told, "name": name, "image": _picture(data, number)}


def _numbers(values: Tensor) -> str:
    """Return numbers as text; many end in dots.

    >>> _numbers(torch.tensor([0.5, 1.0]))
    '0.5, 1'
    """
    listed = values.reshape(-1).tolist()
    return ", ".join([*(f"{one:.4g}" for one in listed[:_NUMBERS]), *["…"] * (len(listed) > _NUMBERS)])


def _picture(data: Data, number: int) -> str:
    """Return an image as the address of a PNG; empty where it cannot be drawn."""
    image = data.read(torch.tensor([number]))[0]
    try:
        from PIL import Image
    except ImportError:
        return ""
    if image.dtype != torch.uint8 or image.shape[0] not in (1, 3):
        return ""
    packed = io.BytesIO()
    Image.fromarray(image.permute(1, 2, 0).squeeze(2).numpy()).save(packed, "PNG")
    return f"data:image/png;base64,{base64.b64encode(packed.getvalue()).decode()}"
