"""The page about fits beside networks that were known before, from the stored results of ``fits.py``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from statistics import mean
from typing import Any

from shared import row_of, signed, spread

__all__ = ["fits_page"]

WAYS = {
    "fit": "`archgrad fit`",
    "known": "a fit that chooses nothing: one ResNet",
    "resnet": "`archgrad train resnet`",
    "mobilenet": "`archgrad train mobilenet --cells 8 --channels 16`",
}
TEXT = """\
# Is a fit worth its time?

A fit compares networks, and spends up to half of its time on that. The same images, the same time and one thread could
train a network that was known before: a ResNet as deep and wide as suits the time, with the precision and the test of
mirrored images that a fit has, or what `archgrad train` makes of a ResNet-20 or a MobileNetV2 with `--time-limit`.
`studies/fits.py` trains all four with every seed, two at a time on two cores; a way without a row has not been run yet.
`python studies/publish.py` writes this page from `studies/results/fits`.

{studies}

Intervals: 95 %, of the mean over seeds, differences paired by seed. Millions: multiply-adds of the network for one
image, in the mean.
"""
STUDY = """\
## {data}, {budget}

```console
$ python studies/fits.py {data} --budget {budget} --seeds {seeds} --folder FITS -o studies/results/fits/{name}.json
```

| | {heads} |
|---|{lines}
{rows}

{verdicts}"""


def fits_page(home: Path) -> str:
    """Return the page of all stored studies."""
    files = sorted(home.glob("*.json"))
    studies = [_study(path.stem, json.loads(path.read_text(encoding="utf-8"))) for path in files]
    return TEXT.format(studies="\n\n".join(studies))


def _study(name: str, found: Mapping[str, Any]) -> str:
    seeds = found["seeds"]
    ways = [way for way in WAYS if any(way in own for own in seeds.values())]
    rows = [
        row_of([f"{WAYS[way]}: test accuracy, %", *(_shown(own.get(way), "accuracy") for own in seeds.values())])
        for way in ways
    ]
    rows += [
        row_of([f"{title} of the fit", *(cell(own["fit"]) for own in seeds.values())])
        for title, cell in (
            ("winner", lambda one: one["winner"]),
            ("epochs of its last training", lambda one: f"{one['epochs']}"),
            ("seconds", lambda one: f"{one['total']:.0f}"),
        )
    ]
    return STUDY.format(
        name=name, data=found["data"], budget=found["budget"], seeds=f"{min(seeds)}-{max(seeds)}",
        heads=" | ".join(f"seed {seed}" for seed in seeds), lines="---|" * len(seeds), rows="\n".join(rows),
        verdicts="\n".join(_verdict(way, seeds) for way in ways),
    )  # fmt: skip


def _verdict(way: str, seeds: Mapping[str, Any]) -> str:
    """Say what one of the four ways reaches, and how far the fit is ahead of it."""
    both = [(own["fit"], own[way]) for own in seeds.values() if way in own]
    size = mean(one["multiply_adds"] for _, one in both) / 1e6
    said = f"- {WAYS[way]}: {spread([one['test']['accuracy'] for _, one in both])} %, {size:.0f} million"
    if way == "fit":
        return said
    metrics = [name for name in ("accuracy", "balanced_accuracy") if name in both[0][0]["test"]]
    ahead = {name: [fit["test"][name] - one["test"][name] for fit, one in both] for name in metrics}
    points = ", ".join(f"{signed(values)} points of {name.replace('_', ' ')}" for name, values in ahead.items())
    better = sum(one >= 0 for one in ahead["accuracy"])
    return f"{said}; the fit is ahead by {points}, and at least as accurate with {better} of {len(both)} seeds"


def _shown(one: Mapping[str, Any] | None, metric: str) -> str:
    return "–" if one is None else f"{one['test'][metric]:.2f}"
