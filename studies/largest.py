"""The page about the largest of nearly equal operations, from the stored mixtures of three studies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from statistics import mean

import torch
from shared import CIFAR10, CIFAR100, signed, spread, worse_share

from archgrad.autodiff.tensors import Probabilities
from archgrad.callbacks.mixture import read_mixture
from archgrad.discretizers import Largest
from archgrad.spaces import Genotype, NASBench201
from archgrad.spaces.nasbench201_cells import codes_without, genotype_of
from archgrad.tables import tables_for

__all__ = ["accuracies", "largest_cells", "largest_curves", "largest_page"]

SPACE = NASBench201(exclude=("none",))
SHARE, SHARES, AIM = Largest().share, (1.0, 0.8, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0), 93.5
NAMES = {
    "largest": "CIFAR-10, seeds of the main study",
    "largest-tasks/animals": "five classes of animals",
    "largest-tasks/mixed": "the five other classes",
    "largest-tasks/gray": "CIFAR-10 in gray",
    "default/minutes-2": "CIFAR-10, `--time-limit 2`",
    "depth/minutes-2-deep": "CIFAR-10, two minutes with three cells per stage",
    "default/minutes-10": "CIFAR-10, `--time-limit 10`",
}
TEXT = """\
# The largest of nearly equal operations

A short search of a small supernet ends undecided, and prefers what learns fast. `discretizers.Largest` takes on each
edge, of all operations with at least {share} times the probability of the most probable one, the one with the most
multiply-adds. It changes nothing else: here the same runs of `gaea-simultaneous`, at the size of
[the main study](main.md), are derived in both ways. `python studies/publish.py` writes this page from their stored
mixtures.

The rule and its share were found on CIFAR-10 with seeds 400 to 413 of [the study of votes](vote.md) and written down in
`studies/largest.toml` before any other run was finished. The rows of the first table are other runs; the tasks were
never looked at before. The last six rows are searches with seeds 600 to 609, which no study had used. A time limit on
one thread chose their sizes (`studies/default.toml`), but those of three cells per stage in two minutes were given
(`studies/depth.toml`).

| searched on | derived by | n | CIFAR-10 | worst | below {aim} | CIFAR-100 | worse cells |
|---|---|---|---|---|---|---|---|
{rows}

{differences}

Accuracies are those of the cell in NAS-Bench-201's table after 200 epochs, in the mean over seeds, with the 95 %
interval of the mean. Worse cells: of the 4,096 without `none`. The best of all is 94.37 on CIFAR-10 and 73.51 on
CIFAR-100.

## Is it only size?

The largest cell of all, a 3×3 convolution on every edge, is what a share of 0 finds, on any data: {all_largest}. Cells
with as many multiply-adds as a found one have {same_size} % in the mean over all of them. So size alone does not
explain it, and neither does the search alone. What the search says for certain stays, above all the skip connection
from the input of the cell to its output.

| share | seeds 400 to 413, where the rule was found | seeds 0 to 9 |
|---|---|---|
{shares}

Mean on CIFAR-10 in the table, and the worst run. A share of 1 is argmax.

## What is not shown

Other spaces, other methods, longer searches, and data on which small networks are best. The found cells are larger than
those by argmax ({sizes} times the multiply-adds in the mean): where size costs, `CostPenalty` sets a limit.
"""


def largest_page(results: Path) -> str:
    """Return the page."""
    rows, differences, worse = list[str](), list[str](), worse_share()
    for folder, title in NAMES.items():
        study, _, benchmark = folder.partition("/")
        runs = runs_of(results / study / (benchmark or "nasbench201-cifar10"))
        if not runs:
            continue
        ends = {share: [accuracies(derived(run, share)) for run in runs] for share in (1.0, SHARE)}
        for share, name in ((1.0, "argmax"), (SHARE, "**largest**")):
            rows.append(_row((title, name), ends[share], worse))
        gains = [signed([b[at] - a[at] for a, b in zip(ends[1.0], ends[SHARE], strict=True)]) for at in (0, 1)]
        differences.append(f"- {title}: largest minus argmax {gains[0]} points on CIFAR-10, {gains[1]} on CIFAR-100")
    differences += _deeper(results)
    found, fresh = (runs_of(results / one / "nasbench201-cifar10") for one in ("vote", "largest"))
    cells = [[derived(run, share) for run in fresh] for share in (SHARE, 1.0)]
    return TEXT.format(
        share=SHARE, aim=AIM, rows="\n".join(rows), differences="\n".join(differences),
        all_largest=f"{accuracies(derived(fresh[0], 0.0))[0]:.2f} %",
        same_size=f"{mean(same_size(cell) for cell in cells[0]):.2f}",
        shares="\n".join(_share_row(share, found, fresh) for share in SHARES),
        sizes=f"{mean(madds(cell) for cell in cells[0]) / mean(madds(cell) for cell in cells[1]):.1f}",
    )  # fmt: skip


def _deeper(results: Path) -> list[str]:
    """Compare two minutes with three cells per stage with those of one, paired by seed."""
    shallow, deep = (runs_of(results / one) for one in ("default/minutes-2", "depth/minutes-2-deep"))
    ends = [[accuracies(derived(run, SHARE)) for run in runs] for runs in (shallow, deep)]
    gains = [signed([b[at] - a[at] for a, b in zip(*ends, strict=True)]) for at in (0, 1)]
    return [f"- two minutes, three cells per stage minus one: {gains[0]} points on CIFAR-10, {gains[1]} on CIFAR-100"]


def largest_cells(results: Path, epoch: int = 0) -> list[str]:
    """Return the cells that the runs with the seeds of the main study have after an epoch, by default the last."""
    return [derived(run, SHARE, epoch) for run in runs_of(results / "largest" / "nasbench201-cifar10")]


def largest_curves(results: Path, epochs: int) -> list[list[tuple[float, float]]]:
    """Return, for each of these runs, the accuracy on CIFAR-10 of the cell after each epoch."""
    cells = [largest_cells(results, epoch) for epoch in range(1, epochs + 1)]
    return [[(float(at), accuracies(cell)[0]) for at, cell in enumerate(own, 1)] for own in zip(*cells, strict=True)]


def runs_of(home: Path) -> list[Path]:
    """Return the stored runs with a mixture, by seed."""
    return sorted(
        (path.parent for path in home.glob("*/mixture.json")), key=lambda path: int(path.name.split("seed")[1])
    )


@cache
def derived(run: Path, share: float, epoch: int = 0) -> str:
    """Return the cell of the mixture of a run after an epoch, by default the last."""
    choices, epochs = read_mixture(run / "mixture.json")
    weights = dict(zip(choices, epochs[epoch - 1], strict=True))
    (block,) = SPACE.blocks
    rows = [[weights[block.name, row.name, choice] for choice in row.choices] for row in block.rows]
    mixture = Probabilities({block.name: torch.tensor(rows, dtype=torch.float64)})
    return str(Largest(share).select(SPACE, mixture))


@cache
def accuracies(cell: str) -> tuple[float, float]:
    """Return the accuracy of a cell on CIFAR-10 and on CIFAR-100."""
    found = tables_for(SPACE.name)[0].accuracies(Genotype.parse(cell))
    return found[CIFAR10], found[CIFAR100]


@cache
def table_by_size() -> dict[tuple[int, ...], list[float]]:
    """Return the accuracies on CIFAR-10 of all cells by how often they have each operation that computes."""
    found: dict[tuple[int, ...], list[float]] = {}
    values = tables_for(SPACE.name)[0].values(SPACE, CIFAR10) or ()
    for code, value in zip(codes_without(SPACE.exclude), values, strict=True):
        found.setdefault(_operations(str(genotype_of(code))), []).append(value)
    return found


def same_size(cell: str) -> float:
    """Return the mean accuracy of all cells with as many convolutions of each kind."""
    return mean(table_by_size()[_operations(cell)])


def _operations(cell: str) -> tuple[int, ...]:
    return cell.count("nor_conv_3x3"), cell.count("nor_conv_1x1")


@cache
def madds(cell: str) -> int:
    """Return the multiply-adds at the published size."""
    return SPACE.cost(Genotype.parse(cell)).multiply_adds


def _row(named: tuple[str, str], ends: Sequence[tuple[float, float]], worse: Callable[[float], float]) -> str:
    own = [one[0] for one in ends]
    below, other = sum(one < AIM for one in own), mean(one[1] for one in ends)
    cells = (*named, f"{len(own)}", spread(own), f"{min(own):.2f}", f"{below}", f"{other:.2f}")
    return f"| {' | '.join(cells)} | {mean(map(worse, own)):.1f} % |"


def _share_row(share: float, *studies: Sequence[Path]) -> str:
    ends = [[accuracies(derived(run, share))[0] for run in runs] for runs in studies]
    return f"| {share:g} | {' | '.join(f'{mean(own):.2f}, {min(own):.2f}' for own in ends)} |"
