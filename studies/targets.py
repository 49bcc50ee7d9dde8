"""The page about searches for a device, from the stored runs of ``latency.toml``, and its figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from statistics import mean
from typing import Any

from latency_front import all_points, draw, share_of_front
from shared import row_of, spread

from archgrad.studies.pareto import Point

__all__ = ["draw_front", "latency_page"]

DEVICE = "raspi4"
TEXT = """\
# Searches for a Raspberry Pi 4

How far from the best are cells that a search finds for a target of [the latency table](../hardware.md)? GAEA
(simultaneous) on a small proxy: 2,000 images of CIFAR-10 at 16×16 pixels, 8 channels, one cell per stage, 12 epochs,
without `none`, half a minute of one core (`studies/latency.toml`, {runs} runs). `python studies/publish.py` writes this
page from `studies/results/latency`.

The same five targets with three weights of the penalty: the default 1, 0.1 ("weak"), and 0 ("exchange"), with which the
search knows nothing of the target, and only at its end choices are exchanged for cheaper ones until the cell is within.

| variant | seeds | latency (ms) | accuracy | best within the target | behind it | a random cell is behind |
|---|---|---|---|---|---|---|
{rows}

Latency and accuracy are those of the tables, for the benchmark's own network, in the mean over seeds. Behind: points of
accuracy, with the 95 % interval of the mean. Best and random: of all cells without `none` within the target.

| weight | behind the best, mean over the five targets | share of the front's hypervolume |
|---|---|---|
{weights}

The hypervolume is that of all its cells together; {drawn} cells drawn at random have {random:.1f} % (median of 100
draws).

![accuracy against latency of all cells, the true front and the found cells](../images/latency.svg)

{verdict}
"""
VERDICT = """\
All {runs} cells are within their targets by the table: the exchanges at the end see to that, with any weight.

{best}

Not shown: longer searches, and other devices."""
WEIGHTS = {"": "1 (default)", "-weak": "0.1", "-exchange": "0"}
Ends = Mapping[str, Sequence[str]]


def ends_of(found: Mapping[str, Mapping[int, list[dict[str, Any]]]]) -> dict[str, list[str]]:
    """Return the cells that the runs of each variant found, by seed."""
    return {variant: [runs[seed][-1]["genotype"] for seed in sorted(runs)] for variant, runs in found.items()}


def draw_front(ends: Ends, path: Path) -> None:
    """Draw the found cells of each weight beside the true front."""
    points = all_points(DEVICE, ("none",))
    named = {f"weight {label}": _of_weight(ends, points, end) for end, label in WEIGHTS.items()}
    draw(named, [*points.values()], DEVICE, path)


def latency_page(ends: Ends) -> str:
    """Return the page."""
    points = all_points(DEVICE, ("none",))
    every, rows, behind = [*points.values()], [], dict[str, list[float]]()
    for variant, cells in ends.items():
        target, _, weight = variant.partition("ms")
        within = [accuracy for time, accuracy in every if time <= float(target)]
        own = [points[cell] for cell in cells]
        regrets = [max(within) - accuracy for _, accuracy in own]
        behind.setdefault(weight, []).extend(regrets)
        cells_of_row = (
            f"`{variant}`",
            f"{len(own)}",
            f"{mean(time for time, _ in own):.1f}",
            f"{mean(accuracy for _, accuracy in own):.2f}",
            f"{max(within):.2f}",
            spread(regrets),
            f"{max(within) - mean(within):.2f}",
        )
        rows.append(row_of(cells_of_row))
    runs, drawn = sum(map(len, ends.values())), len(_of_weight(ends, points, ""))
    weights = [
        f"| {WEIGHTS[weight]} | {spread(own)} | {100 * share_of_front(_of_weight(ends, points, weight), every):.1f} % |"
        for weight, own in behind.items()
    ]
    return TEXT.format(
        runs=runs, rows="\n".join(rows), weights="\n".join(weights), drawn=drawn, random=_random_share(every, drawn),
        verdict=VERDICT.format(runs=runs, best=_best(behind)),
    )  # fmt: skip


def _of_weight(ends: Ends, points: Mapping[str, Point], weight: str) -> list[Point]:
    """Return the points of all variants of a weight."""
    own = (cells for variant, cells in ends.items() if variant.partition("ms")[2] == weight)
    return [points[cell] for cell in chain(*own)]


def _random_share(every: Sequence[Point], count: int) -> float:
    """Return the median share of the front's hypervolume, in per cent, of so many random cells."""
    import numpy as np

    rng = np.random.default_rng(0)
    draws = ([every[one] for one in rng.choice(len(every), count, replace=False)] for _ in range(100))
    return float(np.median([100 * share_of_front(own, list(every)) for own in draws]))


def _best(behind: Mapping[str, Sequence[float]]) -> str:
    """Say whether the penalty finds better cells than exchanges alone."""
    from archgrad.studies.statistics import summarize

    told = []
    for weight in ("", "-weak"):
        gains = [other - own for own, other in zip(behind[weight], behind["-exchange"], strict=True)]
        summary = summarize(gains)
        low, high = summary.interval or (summary.mean, summary.mean)
        word = "better" if low > 0 else "worse" if high < 0 else "neither shown to be better nor worse"
        told.append(
            f"- A weight of {WEIGHTS[weight].split()[0]} is {word} than exchanges alone: {summary.mean:+.2f} points\n"
            f"  ({low:+.2f} to {high:+.2f}, {len(gains)} pairs of target and seed)"
        )
    return "\n".join(told)
