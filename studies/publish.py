"""Write the page and the figure of the main study from its stored results: ``python studies/publish.py``.

``docs/results/main.md`` has the tables and ``docs/images/main.svg`` the figure; nothing in them is typed by hand. The
share of worse cells needs the NAS-Bench-201 table under ARCHGRAD_DATA.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any

from archgrad import tables
from archgrad.config.toml import read_toml
from archgrad.report.curves import Line, draw_lines
from archgrad.spaces import NASBench201
from archgrad.studies.curves import anytime_curve
from archgrad.studies.statistics import summarize

HERE = Path(__file__).parent
RUNS = HERE / "results" / "main" / "nasbench201-cifar10"
PAGE, FIGURE = Path("docs/results/main.md"), Path("docs/images/main.svg")
CIFAR10, CIFAR100 = "oracle_cifar10_test_200ep", "oracle_cifar100_test_200ep"
DRAWN = ("darts", "idarts", "amended", "gaea-simultaneous", "lambda-darts")
"""DARTS and a method of each of the four papers."""
EARLY = 10
"""The epoch that the end is compared with."""
PAGE_TEXT = """\
# The main study

{finished} of {planned} runs are finished. `python studies/publish.py` writes this page from
`studies/results/main`; [studies/README.md](../../studies/README.md) says how the runs are
computed. While a variant has fewer than ten seeds, its row ranks nothing.

{head}
{rows}

Accuracies are those of the found cell in NAS-Bench-201's table after 200 epochs, in the mean over seeds, with the 95 %
interval of the mean. Worse cells: the share of the 4,096 cells without `none` that have a lower accuracy on CIFAR-10.
Skips: of six edges. Entropy: of the mixture, 1 is undecided. Minutes: median of a run on a machine that was busy with
other work, so no measure of speed.

![accuracy of the current cell over 40 epochs](../images/main.svg)
"""
Runs = dict[int, list[dict[str, Any]]]


def read_runs(folder: Path) -> dict[str, Runs]:
    """Return the records of all stored runs by variant and seed, the variants in the order of the study."""
    order = list(read_toml(HERE / "main.toml")["variant"])
    found: dict[str, Runs] = {}
    for path in sorted(folder.glob("*/metrics.jsonl")):
        variant, _, seed = path.parent.name.rpartition("-seed")
        lines = path.read_text(encoding="utf-8").splitlines()
        found.setdefault(variant, {})[int(seed)] = [json.loads(line) for line in lines]
    return {variant: found[variant] for variant in order if variant in found}


def spread(values: Sequence[float]) -> str:
    """Return the mean, and its 95 % interval where there are two runs or more."""
    summary = summarize(values)
    ends = "" if summary.interval is None else " ({:.2f} to {:.2f})".format(*summary.interval)
    return f"{summary.mean:.2f}{ends}"


def row(variant: str, runs: Runs, worse: Callable[[float], float]) -> str:
    """Return the line of a variant."""
    ends = [records[-1] for _, records in sorted(runs.items())]
    accuracies = [one[CIFAR10] for one in ends]
    early = [records[EARLY - 1] for records in runs.values() if len(records) >= EARLY]
    entropies = [one["entropy"] / one["entropy_max"] for one in ends if one.get("entropy_max")]
    cells = (
        f"`{variant}`",
        f"{len(runs)}",
        f"{mean(one[CIFAR10] for one in early):.2f}" if early else "–",
        spread(accuracies),
        f"{min(accuracies):.2f}",
        f"{mean(one[CIFAR100] for one in ends):.2f}",
        f"{mean(map(worse, accuracies)):.1f} %",
        f"{mean(one['skips'] for one in ends):.1f}" if "skips" in ends[0] else "–",
        f"{mean(entropies):.2f}" if entropies else "–",
        f"{median(sum(one.get('seconds', 0.0) for one in records) for records in runs.values()) / 60:.0f}",
    )
    return f"| {' | '.join(cells)} |"


def worse_share() -> Callable[[float], float]:
    """Return the function from an accuracy on CIFAR-10 to the share, in per cent, of cells that are worse."""
    space = NASBench201(exclude=("none",))
    every = tables.tables_for(space.name)[0].values(space, CIFAR10) or ()
    return lambda accuracy: 100 * sum(one < accuracy for one in every) / len(every)


def page(found: dict[str, Runs]) -> str:
    """Return the page."""
    planned = read_toml(HERE / "main.toml")
    worse, finished = worse_share(), sum(map(len, found.values()))
    head = (
        "variant", "seeds", f"epoch {EARLY}", "end: CIFAR-10", "worst seed", "CIFAR-100", "worse cells", "skips",
        "entropy", "minutes",
    )  # fmt: skip
    rows = [row(variant, runs, worse) for variant, runs in found.items()]
    return PAGE_TEXT.format(
        finished=finished,
        planned=10 * len(planned["variant"]),
        head=f"| {' | '.join(head)} |\n|{'---|' * len(head)}",
        rows="\n".join(rows),
    )


def draw(found: dict[str, Runs], path: Path) -> None:
    """Draw the accuracy of the current cell over the epochs."""
    lines = {}
    for variant in DRAWN:
        runs = found.get(variant, {})
        points = anytime_curve({seed: [(one["epoch"], one[CIFAR10]) for one in runs[seed]] for seed in runs})
        if points:
            bands = [point.band or (point.mean, point.mean) for point in points]
            label = f"{variant} ({len(runs)} {'seed' if len(runs) == 1 else 'seeds'})"
            low, high = ([band[end] for band in bands] for end in (0, 1))
            lines[label] = Line([point.x for point in points], [point.mean for point in points], low, high)
    axes = ("epoch", "accuracy of the current cell, CIFAR-10 (%)")
    draw_lines(lines, axes, "line: mean over seeds, band: 95 % interval of the mean", path)


def main() -> None:
    """Write page and figure below the given folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, default=HERE.parent)
    to, found = parser.parse_args().to, read_runs(RUNS)
    (to / PAGE).write_text(page(found), encoding="utf-8")
    draw(found, to / FIGURE)


if __name__ == "__main__":
    main()
