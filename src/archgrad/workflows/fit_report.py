"""The result of a fit: a model, and what is known about it."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch
from torch import Tensor

from archgrad.data import Data
from archgrad.models import Model
from archgrad.report import to_svg
from archgrad.spaces import Genotype
from archgrad.spaces.cost import measure_latency
from archgrad.system.amounts import counted
from archgrad.workflows.candidates import Candidate
from archgrad.workflows.halving import Round
from archgrad.workflows.select import SelectionResult

__all__ = ["FitResult", "OverSeeds", "SearchAdded", "confusion", "describe_test", "worst"]

_SHOWN = 12
"""So many of the worst examples are kept."""


@dataclass(frozen=True)
class SearchAdded:
    """What the search added: the held-out accuracies of the winner and its best rival in the last round of both.

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
                return cls(name, winner.searched, value, rival.name, rival.value, rival.seconds, searched)
        return cls(name, winner.searched, searched=searched)

    def __str__(self) -> str:
        if self.value is None or self.rival_value is None:
            return f"{self.winner} won; there was {'nothing to compare it with' if self.searched else 'no search'}"
        both = f"{self.value:.2f} against {self.rival_value:.2f} % on the held-out images"
        each = f"after {self.seconds:.0f} seconds of training each"
        if not self.searched:
            return f"there was no search; {self.winner} won: {both} for {self.rival}, {each}"
        if self.is_searched:
            return f"the searched cell won: {both} for the best plain network ({self.rival}), {each}"
        return f"a plain network won ({self.winner}): {both} for the searched cell, {each}; the search added nothing"


@dataclass(frozen=True)
class OverSeeds:
    """Test accuracies of the winner and its rival, one for each training seed, all trained for the same time."""

    winner: str
    rival: str
    accuracies: tuple[float, ...]
    rivals: tuple[float, ...]

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
        values = f"{fmean(self.accuracies):.2f} against {fmean(self.rivals):.2f} % for {self.rival}"
        difference = (
            f"{values}: a difference of {fmean(self.differences):+.2f} over {counted(len(self.rivals), 'seed')}"
        )
        if self.interval is None:
            return f"{difference}; one seed tells nothing about its chance"
        low, high = self.interval
        word = "the winner is better" if low > 0 else "the winner is WORSE" if high < 0 else "no clear difference"
        return f"{difference}, 95 % interval {low:+.2f} to {high:+.2f}: {word}"

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
    search has added. ``outputs`` [N, classes] are those on the ``tests``, which trained and chose nothing.
    ``interval`` is the 95 % interval of the accuracy. ``seconds`` are those of each part, ``total`` all of them.
    ``over_seeds`` compares with a rival over several training seeds, None if it was not wanted. ``files`` are those of
    the ``target``.
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

    @property
    def genotype(self) -> Genotype:
        """The architecture."""
        return self.selection.genotype

    @property
    def accuracy(self) -> float:
        """The accuracy on the test images in per cent."""
        return 100 * float((self.outputs.argmax(1) == self.tests.targets).float().mean())

    @property
    def verdict(self) -> str:
        """What won, and what the search added."""
        return str(self.added if self.over_seeds is None else self.over_seeds)

    def to_dict(self) -> dict[str, Any]:
        """Return the content of ``fit.json``'s result."""
        names = ("channels", "depth", "epochs", "parameters", "multiply_adds")
        final = self.selection.final.to_dict()
        return {
            "accuracy": self.accuracy,
            "balanced_accuracy": (self.selection.final.runs[0].test or {}).get("balanced_accuracy"),
            "interval": list(self.interval),
            "test_images": len(self.tests),
            "network": str(self.candidate),
            "genotype": str(self.genotype),
            **{name: final[name] for name in names},
            "added": str(self.added),
            "rounds": [one.to_dict() for one in self.selection.rounds],
            "compared": None if self.over_seeds is None else self.over_seeds.to_dict(),
            "verdict": self.verdict,
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
        low, high = self.interval
        return f"{self.accuracy:.2f} % ({low:.2f} to {high:.2f}) of {len(self.tests):,} test images, {self.candidate}"


def confusion(outputs: Tensor, targets: Tensor) -> Tensor:
    """Count how often class i (row) was called class j (column).

    >>> confusion(torch.eye(2)[[0, 1, 1]], torch.tensor([0, 0, 1]))
    tensor([[1, 1],
            [0, 1]])
    """
    classes = outputs.shape[1]
    return (classes * targets + outputs.argmax(1)).bincount(minlength=classes**2).view(classes, classes)


def worst(outputs: Tensor, targets: Tensor, count: int = _SHOWN) -> list[int]:
    """Return the numbers of the wrongly classified images, those first whose true class got the least probability."""
    probabilities = outputs.softmax(1).gather(1, targets[:, None])[:, 0]
    order = probabilities.argsort(stable=True).tolist()
    return [one for one in order if int(outputs[one].argmax()) != int(targets[one])][:count]


def describe_test(result: FitResult) -> dict[str, Any]:
    """Return what ``fit.json`` keeps about the test for the page: classes, confusion, the worst examples, latency."""
    data = result.tests
    trained = torch.zeros(0) if result.train_targets is None else result.train_targets
    return {
        "classes": list(data.classes),
        "trained": trained.long().bincount(minlength=data.num_classes).tolist(),
        "confusion": confusion(result.outputs, data.targets).tolist(),
        "worst": [_example(result, one) for one in worst(result.outputs, data.targets)],
        "latency": measure_latency(result.model.network, data.channels, data.image_size),
    }


def _example(result: FitResult, number: int) -> dict[str, Any]:
    """Return a test image, what it is and what it was called."""
    data = result.tests
    probability, label = result.outputs[number].softmax(0).max(0)
    name = (data.file_of(number) or f"test image {number}").encode("utf-8", "backslashreplace").decode()
    return {
        "true": data.classes[int(data.targets[number])], "called": data.classes[int(label)],
        "probability": round(float(probability), 4), "name": name, "image": _picture(data, number),
    }  # fmt: skip


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
