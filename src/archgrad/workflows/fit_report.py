"""The one-page report of a fit, as a web page that needs nothing else."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from archgrad.data import Data
from archgrad.report import to_svg
from archgrad.spaces.cost import measure_latency

if TYPE_CHECKING:
    from archgrad.workflows.fit_result import FitResult

__all__ = ["confusion", "report_page", "worst"]

_SHOWN = 12
_MOST_CLASSES = 40
"""With more classes, the page lists the most common mistakes instead of the whole matrix."""
_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; color: #222 }
h1 { font-size: 1.6em }
h2 { font-size: 1.2em; margin-top: 2em }
table { border-collapse: collapse }
td, th { padding: .2em .6em; text-align: right }
.facts td { text-align: left }
.facts td:first-child { color: #666 }
figure { display: inline-block; margin: .5em; text-align: center }
figcaption { font-size: .8em; color: #444 }
img { image-rendering: pixelated; width: 96px; height: 96px; border: 1px solid #ccc }
svg { max-width: 100%; height: auto }
pre { overflow: auto }
"""


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
    parts = [
        f"<h1>{result.accuracy:.2f} % of {len(result.tests):,} test images are right</h1>",
        f"<p>95 % interval: {low:.2f} to {high:.2f} %. {escape(str(result.comparison))}.</p>",
        _facts(result),
        "<h2>Confusion</h2>",
        _matrix(result),
        "<h2>Worst examples</h2>",
        "".join(_figures(result)) or "<p>No test image is wrong.</p>",
        "<h2>Cell</h2>",
        _cell(result),
    ]
    head = f'<meta charset="utf-8"><title>archgrad fit</title><style>{_STYLE}</style>'
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{"".join(parts)}</body></html>\n'


def _facts(result: FitResult) -> str:
    final, data = result.selection.final, result.tests
    depth = getattr(final.space, final.space.depth_knob)
    latency = measure_latency(result.model.network, data.channels, data.image_size)
    seconds = ", ".join(f"{name} {one / 60:.1f}" for name, one in result.seconds.items())
    rows = {
        "network": f"{final.space.channels} channels, {depth} cells per stage, {final.epochs} epochs",
        "size": str(final.cost),
        "latency": f"{1000 * latency:.2f} ms for one image on this machine, with {torch.get_num_threads()} thread(s)",
        "images": f"{data.image_size}×{data.image_size} pixels, {data.num_classes} classes",
        "baseline": f"ResNet-20 with {result.baseline.space.channels} channels, {result.baseline.cost}, "
        f"{result.baseline.epochs} epochs",
        "minutes": seconds,
    }
    body = "".join(f"<tr><td>{name}</td><td>{escape(text)}</td></tr>" for name, text in rows.items())
    return f'<table class="facts">{body}</table>'


def _matrix(result: FitResult) -> str:
    counts, names = confusion(result.outputs, result.tests.targets), result.tests.classes
    if len(names) > _MOST_CLASSES:
        return _common_mistakes(counts, names)
    head = "".join(f"<th>{escape(name[:20])}</th>" for name in names)
    rows = []
    for name, row in zip(names, counts.tolist(), strict=True):
        total = max(sum(row), 1)
        cells = "".join(f'<td style="background:rgba(40,110,200,{one / total:.2f})">{one or ""}</td>' for one in row)
        rows.append(f"<tr><th>{escape(name[:20])}</th>{cells}</tr>")
    return f"<p>Rows are the true classes.</p><table><tr><th></th>{head}</tr>{''.join(rows)}</table>"


def _common_mistakes(counts: Tensor, names: tuple[str, ...]) -> str:
    wrong = counts.clone().fill_diagonal_(0)
    order = wrong.flatten().argsort(descending=True, stable=True)[:20].tolist()
    pairs = [(names[one // len(names)], names[one % len(names)], int(wrong.flatten()[one])) for one in order]
    lines = "".join(f"<tr><td>{escape(a)} called {escape(b)}</td><td>{n}</td></tr>" for a, b, n in pairs if n)
    return f'<table class="facts">{lines}</table>'


def _figures(result: FitResult) -> Iterator[str]:
    outputs, data = result.outputs, result.tests
    for number in worst(outputs, data.targets):
        probability, label = outputs[number].softmax(0).max(0)
        true, told = data.classes[int(data.targets[number])], data.classes[int(label)]
        picture = _picture(data, number)
        caption = f"{escape(true[:30])}, called {escape(told[:30])} ({100 * float(probability):.0f} %)"
        yield f"<figure>{picture}<figcaption>{caption}</figcaption></figure>"


def _picture(data: Data, number: int) -> str:
    """Return an image as an element of the page; its number where it cannot be drawn."""
    image = data.read(torch.tensor([number]))[0]
    try:
        from PIL import Image
    except ImportError:
        return f"<p>test image {number} (archgrad[images] draws it)</p>"
    if image.dtype != torch.uint8 or image.shape[0] not in (1, 3):
        return f"<p>test image {number}</p>"
    pixels = image.permute(1, 2, 0).squeeze(2).numpy()
    packed = io.BytesIO()
    Image.fromarray(pixels).save(packed, "PNG")
    return f'<img alt="test image {number}" src="data:image/png;base64,{base64.b64encode(packed.getvalue()).decode()}">'


def _cell(result: FitResult) -> str:
    return f"<p><code>{escape(str(result.genotype))}</code></p>{to_svg(result.genotype)}"
