"""The result of a fit: a model, what is known about it, and a web page that shows it and needs nothing else."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from archgrad.data import Data
from archgrad.models import Model
from archgrad.report import to_svg
from archgrad.spaces import Genotype
from archgrad.spaces.cost import measure_latency
from archgrad.workflows.fit_plan import FitPlan
from archgrad.workflows.select import SelectionResult
from archgrad.workflows.train_result import TrainResult

__all__ = ["AgainstBaseline", "FitResult", "compare", "confusion", "report_page", "worst"]

_SHOWN = 12
_MOST_CLASSES = 40
"""With more classes, the page lists the most common mistakes instead of the whole matrix."""
_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; color: #222 }
td, th { padding: .2em .6em; text-align: right }
figure { display: inline-block; margin: .5em; text-align: center }
img { image-rendering: pixelated; width: 96px; height: 96px }
svg { max-width: 100%; height: auto }
"""


@dataclass(frozen=True)
class AgainstBaseline:
    """Two classifiers on the same images: their accuracies, and how likely such a difference is by chance.

    ``p_value`` is that of McNemar's exact test, which counts the images that only one of them gets right.
    """

    accuracy: float
    baseline: float
    p_value: float

    def __str__(self) -> str:
        both = f"{self.accuracy:.2f} % against {self.baseline:.2f} % of ResNet-20 of equal size and training time"
        if self.p_value < 0.05:
            return f"{both}: it is {'better' if self.accuracy > self.baseline else 'WORSE'} (p = {self.p_value:.2g})"
        return f"{both}: no clear difference (p = {self.p_value:.2g})"


def compare(outputs: Tensor, others: Tensor, targets: Tensor) -> AgainstBaseline:
    """Compare the outputs [N, K] of two classifiers."""
    from scipy.stats import binomtest

    right, other = (one.argmax(1) == targets for one in (outputs, others))
    ours, theirs = int((right & ~other).sum()), int((other & ~right).sum())
    accuracy, baseline = (100 * float(one.float().mean()) for one in (right, other))
    return AgainstBaseline(accuracy, baseline, float(binomtest(ours, ours + theirs).pvalue) if ours + theirs else 1.0)


@dataclass(frozen=True)
class FitResult:
    """A model for the images, and what is known about it.

    ``outputs`` [N, classes] are those on the ``tests``, which trained and chose nothing. ``interval`` is the 95 %
    interval of the accuracy, and ``seconds`` the time of each part. ``files`` are those of the ``target``.
    """

    model: Model
    plan: FitPlan
    selection: SelectionResult
    baseline: TrainResult
    comparison: AgainstBaseline
    interval: tuple[float, float]
    tests: Data = field(repr=False)
    outputs: Tensor = field(repr=False)
    seconds: dict[str, float]
    folder: Path | None = None
    files: tuple[str, ...] = ()

    @property
    def genotype(self) -> Genotype:
        """The architecture."""
        return self.selection.genotype

    @property
    def accuracy(self) -> float:
        """The accuracy on the test images in per cent."""
        return self.comparison.accuracy

    def to_dict(self) -> dict[str, Any]:
        """Return the content of ``fit.json``'s result."""
        names = ("channels", "depth", "epochs", "parameters", "multiply_adds")
        final, baseline = self.selection.final.to_dict(), self.baseline.to_dict()
        return {
            "accuracy": self.accuracy,
            "interval": list(self.interval),
            "test_images": len(self.tests),
            "genotype": str(self.genotype),
            **{name: final[name] for name in names},
            "baseline": {
                "accuracy": self.comparison.baseline, "p_value": self.comparison.p_value,
                **{name: baseline[name] for name in ("channels", "parameters", "epochs")},
            },
            "verdict": str(self.comparison),
            "seconds": {name: round(one, 1) for name, one in self.seconds.items()},
        }  # fmt: skip


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
    low, high = result.interval
    wrong = worst(result.outputs, result.tests.targets)
    parts = [
        f"<h1>{result.accuracy:.2f} % of {len(result.tests):,} test images are right</h1>",
        f"<p>95 % interval: {low:.2f} to {high:.2f} %. {escape(str(result.comparison))}.</p>",
        _table(_facts(result)),
        "<h2>Confusion</h2>",
        _confusions(confusion(result.outputs, result.tests.targets), result.tests.classes),
        "<h2>Worst examples</h2>",
        "".join(_figure(result, number) for number in wrong) or "<p>No test image is wrong.</p>",
        f"<h2>Cell</h2><p><code>{escape(str(result.genotype))}</code></p>{to_svg(result.genotype)}",
    ]
    head = f'<meta charset="utf-8"><title>archgrad fit</title><style>{_STYLE}</style>'
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{"".join(parts)}</body></html>\n'


def _table(rows: list[tuple[str, str]]) -> str:
    cells = (f"<tr><td>{escape(name)}</td><td>{escape(text)}</td></tr>" for name, text in rows)
    return f"<table>{''.join(cells)}</table>"


def _facts(result: FitResult) -> list[tuple[str, str]]:
    final, baseline, data = result.selection.final, result.baseline, result.tests
    latency = measure_latency(result.model.network, data.channels, data.image_size)
    depth = getattr(final.space, final.space.depth_knob)
    return [
        ("network", f"{final.space.channels} channels, {depth} cells per stage, {final.epochs} epochs"),
        ("size", str(final.cost)),
        ("latency", f"{1000 * latency:.2f} ms for one image on this machine, {torch.get_num_threads()} thread(s)"),
        ("images", f"{data.image_size}×{data.image_size} pixels, {data.num_classes} classes"),
        ("baseline", f"ResNet-20, {baseline.space.channels} channels, {baseline.cost}, {baseline.epochs} epochs"),
        ("minutes", ", ".join(f"{name} {one / 60:.1f}" for name, one in result.seconds.items())),
    ]


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
    return f"<p>Rows are the true classes.</p><table><tr><th></th>{head}</tr>{''.join(rows)}</table>"


def _figure(result: FitResult, number: int) -> str:
    """Return a test image with what it is and what it was called; its number where it cannot be drawn."""
    data = result.tests
    probability, label = result.outputs[number].softmax(0).max(0)
    true, told = data.classes[int(data.targets[number])], data.classes[int(label)]
    caption = f"{escape(true[:30])}, called {escape(told[:30])} ({100 * float(probability):.0f} %)"
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
