"""The result of a fit: a model, what is known about it, and a web page that shows it and needs nothing else."""

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
from archgrad.models import Model
from archgrad.report import to_svg
from archgrad.spaces import Genotype
from archgrad.spaces.cost import measure_latency
from archgrad.system.amounts import counted
from archgrad.workflows.candidates import Candidate
from archgrad.workflows.halving import Round
from archgrad.workflows.select import SelectionResult

__all__ = ["FitResult", "OverSeeds", "SearchAdded", "confusion", "report_page", "worst"]

_SHOWN = 12
_MOST_CLASSES = 20
"""With more classes, the page lists the most common mistakes instead of the whole matrix."""
_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60em; margin: 1em auto; padding: 0 1em; color: #222 }
div { overflow-x: auto }
td, th { padding: .2em .6em; text-align: right; vertical-align: top }
td:first-child, .facts td { text-align: left; overflow-wrap: anywhere }
figure { display: inline-block; margin: .5em; text-align: center; width: 11em; overflow-wrap: anywhere }
img { image-rendering: pixelated; width: 96px; height: 96px }
svg { max-width: 100%; height: auto }
"""


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
        both = f"{self.value:.2f} against {self.rival_value:.2f} % of the held-out images"
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
    ``over_seeds`` compares with a rival over several training seeds, None if it was not wanted. ``asked`` is what the
    fit was told, and ``files`` are those of the ``target``.
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
    asked: Mapping[str, str] = field(default_factory=dict)
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


def report_page(result: FitResult) -> str:
    """Return the page."""
    (low, high), tests = result.interval, result.tests
    counts = confusion(result.outputs, tests.targets)
    parts = [
        f"<h1>{result.accuracy:.2f} % of {len(tests):,} test images are right</h1>",
        f"<p>95 % interval: {low:.2f} to {high:.2f} %. Always naming the most common class: "
        f"{100 * float(counts.sum(1).max()) / len(tests):.2f} %.</p>",
        f"<p>{escape(result.verdict)}.</p>",
        _table(_facts(result), "facts"),
        "<h2>Classes</h2>",
        _classes(result, counts),
        "<h2>Confusion</h2>",
        _confusions(counts, tests.classes),
        "<h2>Worst examples</h2>",
        "".join(_figure(result, one) for one in worst(result.outputs, tests.targets))
        or "<p>No test image is wrong.</p>",
        "<h2>Selection</h2>",
        *(_round(number, one) for number, one in enumerate(result.selection.rounds, 1)),
        "<h2>Last training</h2>",
        _curves(result.selection.final.runs[0].history),
        f"<h2>Cell</h2><p><code>{escape(str(result.genotype))}</code></p>{to_svg(result.genotype)}",
    ]
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    head += f"<title>archgrad fit</title><style>{_STYLE}</style>"
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{"".join(parts)}</body></html>\n'


def _table(rows: Sequence[Sequence[str]], kind: str = "", head: Sequence[str] = ()) -> str:
    lines = ["".join(f"<td>{escape(text)}</td>" for text in row) for row in rows]
    titles = f"<tr>{''.join(f'<th>{escape(one)}</th>' for one in head)}</tr>" if head else ""
    return f'<div><table class="{kind}">{titles}{"".join(f"<tr>{line}</tr>" for line in lines)}</table></div>'


def _facts(result: FitResult) -> list[tuple[str, str]]:
    final, data = result.selection.final, result.tests
    latency = measure_latency(result.model.network, data.channels, data.image_size)
    minutes = ", ".join(f"{name} {one / 60:.1f}" for name, one in result.seconds.items())
    return [
        ("network", f"{result.candidate}, {counted(final.epochs, 'epoch')}"),
        ("size", str(final.cost)),
        (
            "latency",
            f"{1000 * latency:.2f} ms for one image on this machine, {counted(torch.get_num_threads(), 'thread')}",
        ),
        ("images", f"{data.image_size}×{data.image_size} pixels, {data.num_classes} classes"),
        ("minutes", f"{result.total / 60:.1f} in all: {minutes}"),
        *((name, text[:500]) for name, text in result.asked.items()),
    ]


def _classes(result: FitResult, counts: Tensor) -> str:
    """Return the images and the accuracy of each class, the worst first."""
    names, tested, right = result.tests.classes, counts.sum(1).tolist(), counts.diagonal().tolist()
    trained = [0] * len(names)
    if result.train_targets is not None:
        trained = result.train_targets.bincount(minlength=len(names)).tolist()
    rows = sorted(
        (100 * hit / max(seen, 1), name[:30], str(known), str(seen))
        for name, known, seen, hit in zip(names, trained, tested, right, strict=True)
    )
    shown = [(name, known, seen, f"{value:.1f} %" if seen != "0" else "-") for value, name, known, seen in rows]
    return _table(shown, head=("class", "training images", "test images", "right"))


def _round(number: int, done: Round) -> str:
    rows = [
        (one.name, f"{one.value:.2f} %", counted(one.epochs, "epoch"), f"{one.seconds:.0f} s")
        for one in done.candidates
    ]  # fmt: skip
    return f"<p>Round {number}: held-out accuracy, best first; {done.kept} went on.</p>{_table(rows)}"


def _curves(history: Sequence[Mapping[str, Any]], width: int = 600, height: int = 160) -> str:
    """Return the training accuracy over the epochs as a drawing."""
    values = [float(one["train_accuracy"]) for one in history if one.get("train_accuracy") is not None]
    if len(values) < 2:
        return "<p>Too few epochs for a curve.</p>"
    points = " ".join(
        f"{width * number / (len(values) - 1):.1f},{height * (1 - value / 100):.1f}"
        for number, value in enumerate(values)
    )
    line = f'<polyline points="{points}" fill="none" stroke="#286ec8" stroke-width="2"/>'
    frame = f'<rect width="{width}" height="{height}" fill="none" stroke="#bbb"/>'
    told = f"accuracy on the training images over {len(values)} epochs, from 0 to 100 %; at the end {values[-1]:.1f} %"
    return f'<svg viewBox="0 0 {width} {height}" width="{width}" role="img">{frame}{line}</svg><p>{told}</p>'


def _confusions(counts: Tensor, names: tuple[str, ...]) -> str:
    """Return the matrix, or the most common mistakes of many classes."""
    if len(names) > _MOST_CLASSES:
        wrong = counts.clone().fill_diagonal_(0).flatten()
        order = wrong.argsort(descending=True, stable=True)[:20].tolist()
        pairs = {one: f"{names[one // len(names)]} called {names[one % len(names)]}" for one in order if wrong[one]}
        return _table([(text, str(int(wrong[one]))) for one, text in pairs.items()])
    head = "".join(f"<th>{escape(name[:20])}</th>" for name in names)
    rows = []
    for name, row in zip(names, counts.tolist(), strict=True):
        total = max(sum(row), 1)
        cells = "".join(f'<td style="background:rgba(40,110,200,{one / total:.2f})">{one or ""}</td>' for one in row)
        rows.append(f"<tr><th>{escape(name[:20])}</th>{cells}</tr>")
    return f"<p>Rows are the true classes.</p><div><table><tr><th></th>{head}</tr>{''.join(rows)}</table></div>"


def _figure(result: FitResult, number: int) -> str:
    """Return a test image with what it is and what it was called; its number where it cannot be drawn."""
    data = result.tests
    probability, label = result.outputs[number].softmax(0).max(0)
    true, told = data.classes[int(data.targets[number])], data.classes[int(label)]
    caption = f"{escape(true[:30])}, called {escape(told[:30])} ({100 * float(probability):.0f} %)"
    files = getattr(data, "files", ())  # names, where the data knows them
    caption += f"<br>{escape(Path(str(files[number])).name[:60])}" if files else ""
    return f"<figure>{_picture(data, number)}<figcaption>{caption}</figcaption></figure>"


def _picture(data: Data, number: int) -> str:
    image = data.read(torch.tensor([number]))[0]
    try:
        from PIL import Image
    except ImportError:
        return f"<p>test image {number} (archgrad[images] draws it)</p>"
    if image.dtype != torch.uint8 or image.shape[0] not in (1, 3):
        return f"<p>test image {number}</p>"
    packed = io.BytesIO()
    Image.fromarray(image.permute(1, 2, 0).squeeze(2).numpy()).save(packed, "PNG")
    return f'<img alt="test image {number}" src="data:image/png;base64,{base64.b64encode(packed.getvalue()).decode()}">'
