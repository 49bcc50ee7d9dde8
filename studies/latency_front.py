"""Draw what the searches of a study found beside the true front: ``python studies/latency_front.py STUDY -o FILE.svg``.

A cell's latency and accuracy are those of the tables under ARCHGRAD_DATA. The front is that of all cells without
``none``; the reference of the hypervolume is its most expensive point and the lowest accuracy of the space.
"""

from __future__ import annotations

import argparse
from itertools import chain
from pathlib import Path
from typing import Any

from archgrad.report.figure import check_picture, save_figure
from archgrad.spaces.nasbench201_cells import codes_without, genotype_of
from archgrad.studies import Study
from archgrad.studies.pareto import Point, hypervolume, pareto_front
from archgrad.tables import open_latencies, open_table

DATASET = "cifar10"


def found_by(study: Study) -> dict[str, list[str]]:
    """Return the cells that the runs of each variant found, by seed."""
    runs = {name: own for result in study.results for name, own in result.runs.items()}
    return {name: [str(own[seed].genotype) for seed in sorted(own) if own[seed].genotype] for name, own in runs.items()}


def all_points(device: str, excluded: tuple[str, ...]) -> dict[str, Point]:
    """Return the latency and accuracy of every cell without some operations that the device's table has."""
    accuracies, latencies = open_table(), open_latencies()
    points = {}
    for code in codes_without(excluded):
        cell = str(genotype_of(code))
        time = latencies.milliseconds(cell, device)
        if time is not None:
            points[cell] = (time, accuracies.query(cell)[DATASET])
    return points


def share_of_front(found: list[Point], everything: list[Point]) -> float:
    """Return the hypervolume of the found points as a share of the true front's."""
    front = pareto_front(everything)
    reference = (front[-1][0], min(accuracy for _, accuracy in everything))
    return hypervolume(found, reference) / hypervolume(front, reference)


def draw(found: dict[str, list[Point]], everything: list[Point], device: str, path: Path) -> None:
    """Draw all cells, the true front and the found cells of each variant."""

    def fill(figure: Any) -> None:
        axes = figure.subplots()
        axes.scatter(*zip(*everything, strict=True), s=1, color="0.8", label="all cells", rasterized=True)
        axes.step(*zip(*pareto_front(everything), strict=True), where="post", color="black", label="true front")
        for (name, points), marker in zip(found.items(), "osv^DPX*<>" * 10, strict=False):
            axes.scatter(*zip(*points, strict=True), marker=marker, s=30, label=name, zorder=3)
        axes.set(xlabel=f"latency on {device} (ms)", ylabel=f"accuracy in the table, {DATASET} (%)", ylim=(50, 96))
        axes.legend(fontsize=7)

    check_picture(path)
    save_figure(fill, path, (7, 4.5))


def main() -> None:
    """Print the found cells and the share of the front, and draw them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("study", type=Path)
    parser.add_argument("--device", default="raspi4")
    parser.add_argument("-o", "--out", type=Path, default=Path("latency.svg"))
    given = parser.parse_args()
    points, cells = all_points(given.device, ("none",)), found_by(Study.load(given.study))
    found = {name: [points[cell] for cell in own if cell in points] for name, own in cells.items() if own}
    print("| variant | latency (ms) and accuracy (%) of each seed | share of the front's hypervolume |\n|---|---|---|")
    for name, own in {**found, "all": [*chain(*found.values())]}.items():
        shown = "" if name == "all" else "; ".join(f"{time:.1f}, {accuracy:.2f}" for time, accuracy in own)
        print(f"| {name} | {shown} | {100 * share_of_front(own, [*points.values()]):.1f} % |")
    draw(found, [*points.values()], given.device, given.out)
    print(f"\n{len(pareto_front(points.values()))} of {len(points)} cells are on the true front; {given.out}")


if __name__ == "__main__":
    main()
