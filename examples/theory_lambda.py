"""Proposition 1 of Λ-DARTS beside measured supernets: `python examples/theory_lambda.py -o lambda.svg`.

If the gradients g_ℓ = ∂L/∂p_ℓ of the L cells are orthogonal to each other, and to the null space of the softmax's
Jacobian J, then ‖∇αL‖² ≥ λmin(J)²·L·min‖g_ℓ‖², where λmin is the least eigenvalue of J that is not 0 (Eq. 6). This is
computed

- for gradients that are drawn so that they meet both assumptions, for every L for which such gradients exist;
- for two cells that meet only what the proposition states, and for L cells of equal lengths whose gradients cancel;
- for one edge of six that saturates;
- in searches on the digits with 3, 9 and 15 cells.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

import archgrad as ag
from archgrad.callbacks import Callback, Measures
from archgrad.hypergradients import EvaluationPoint
from archgrad.regularizers.gradient_alignment import alignment
from archgrad.report.figure import save_figure
from archgrad.spaces import DecisionBlock

EDGES, OPERATIONS, WINDOW = 6, 5, 10


def jacobian(alpha: Tensor) -> Tensor:
    """Return diag(p) − p·pᵀ of every edge ``[edges, operations, operations]`` (Eq. 2)."""
    p = alpha.softmax(-1)
    return torch.diag_embed(p) - p[:, :, None] * p[:, None, :]


def least_eigenvalue(alpha: Tensor) -> float:
    """Return the least eigenvalue of J that is not 0: each edge has one that is."""
    return torch.linalg.eigvalsh(jacobian(alpha))[:, 1:].min().item()


def centered(gradients: Tensor) -> Tensor:
    """Return the part that is orthogonal to the null space of J: each edge minus its mean (Eq. 4)."""
    return gradients - gradients.mean(-1, keepdim=True)


class Sides(NamedTuple):
    """Both sides of Eq. 6, and the right side with the centered gradients of the cells."""

    left: float
    right: float
    centered: float


def sides(alpha: Tensor, gradients: Tensor) -> Sides:
    """Evaluate Eq. 6 for the gradients of all cells ``[cells, edges, operations]``."""
    left = torch.einsum("eij,ej->ei", jacobian(alpha), gradients.sum(0)).square().sum().item()
    factor = least_eigenvalue(alpha) ** 2 * len(gradients)
    right, inside = (g.flatten(1).square().sum(1).min().item() for g in (gradients, centered(gradients)))
    return Sides(left, factor * right, factor * inside)


def orthogonal_cells(cells: int, generator: torch.Generator) -> Tensor:
    """Draw gradients of random lengths that are orthogonal to each other and to the null space of J."""
    free = torch.linalg.qr(torch.ones(OPERATIONS, 1).double(), mode="complete")[0][:, 1:]
    size = EDGES * (OPERATIONS - 1)
    basis = torch.linalg.qr(torch.randn(size, size, generator=generator, dtype=torch.float64))[0][:cells]
    lengths = torch.rand(cells, 1, 1, generator=generator, dtype=torch.float64) + 0.5
    return lengths * basis.view(cells, EDGES, OPERATIONS - 1) @ free.T


def where_it_holds(draws: int) -> dict[int, float]:
    """Return the least left/right of Eq. 6 over random α and gradients that meet the assumptions, by L."""
    generator, found = torch.Generator().manual_seed(0), {}
    for cells in range(1, EDGES * (OPERATIONS - 1) + 1):
        ratios = []
        for _ in range(draws):
            alpha = torch.randn(EDGES, OPERATIONS, generator=generator, dtype=torch.float64)
            both = sides(alpha, orthogonal_cells(cells, generator))
            ratios.append(both.left / both.right)
        found[cells] = min(ratios)
    return found


def as_stated() -> Sides:
    """Return Eq. 6 for g_1 = (1, 0), g_2 = (0, 1): they are orthogonal, but their sum is in the null space of J."""
    return sides(torch.zeros(1, 2, dtype=torch.float64), torch.eye(2, dtype=torch.float64)[:, None])


def cancelling(cells: int) -> tuple[float, float]:
    """Return Λ and left/right of Eq. 6 for cells of equal lengths whose gradients sum to zero."""
    corners = centered(torch.eye(cells, dtype=torch.float64))
    padded = torch.zeros(cells, EDGES * (OPERATIONS - 1), dtype=torch.float64)
    padded[:, :cells] = corners
    free = torch.linalg.qr(torch.ones(OPERATIONS, 1).double(), mode="complete")[0][:, 1:]
    gradients = padded.view(cells, EDGES, OPERATIONS - 1) @ free.T
    both = sides(torch.zeros(EDGES, OPERATIONS, dtype=torch.float64), gradients)
    return agreement(gradients), both.left / both.right


def agreement(gradients: Tensor) -> float:
    """Return Λ (Eq. 5)."""
    rows = ag.spaces.NASBench201().blocks[0].rows
    block = DecisionBlock("cell", len(gradients), rows)
    return alignment({"cell": gradients}, [block], "cosine").item()


def mean_cosine(gradients: Tensor) -> float:
    """Return the mean of |cos| over all pairs of cells."""
    units = torch.nn.functional.normalize(gradients.flatten(1), dim=1)
    apart = torch.triu_indices(len(units), len(units), 1)
    return (units @ units.T)[apart[0], apart[1]].abs().mean().item()


def random_cosine() -> float:
    """Return the mean of |cos| of two random directions orthogonal to the null space of J."""
    size = EDGES * (OPERATIONS - 1)
    return math.exp(math.lgamma(size / 2) - math.lgamma((size + 1) / 2)) / math.sqrt(math.pi)


def saturating(logit: float) -> tuple[float, float]:
    """Return left and right of Eq. 6 with ten orthogonal cells, where one edge alone saturates by this logit."""
    alpha = torch.zeros(EDGES, OPERATIONS, dtype=torch.float64)
    alpha[0, 0] = logit
    return sides(alpha, orthogonal_cells(10, torch.Generator().manual_seed(0)))[:2]


class Measured(NamedTuple):
    """One architecture step of a search.

    ``cosine`` is the mean of |cos| over the pairs of centered gradients, which is 0 only where all are orthogonal: in Λ
    positive and negative pairs cancel. ``sum_ratio`` is ‖Σ g_ℓ‖²/Σ‖g_ℓ‖² of the centered gradients, and ``null_share``
    the share of ‖Σ g_ℓ‖² that is in the null space of J.
    """

    sides: Sides
    alignment: float
    centered_alignment: float
    cosine: float
    sum_ratio: float
    null_share: float
    shortest: float
    eigenvalue: float


@dataclass(frozen=True)
class LayerGradients(Callback):
    """Keep both sides of Eq. 6 at every architecture step."""

    kind: ClassVar[str] = "layer-gradients"
    every: int = 1
    alpha: dict[str, Tensor] = field(default_factory=dict)
    found: list[Measured] = field(default_factory=list)

    def measure_point(self, point: EvaluationPoint) -> Measures:
        """Keep α, which the next gradients belong to."""
        self.alpha.update(point.alpha)
        return {}

    def measure_gradients(self, blocks: Sequence[DecisionBlock], gradients: Mapping[str, Tensor]) -> Measures:
        """Measure the gradients of all cells."""
        alpha, cells = self.alpha["cell"].double(), gradients["cell"].double()
        inside, total = centered(cells), cells.sum(0)
        self.found.append(
            Measured(
                sides(alpha, cells),
                agreement(cells),
                agreement(inside),
                mean_cosine(inside),
                (centered(total).square().sum() / inside.square().sum()).item(),
                (1 - centered(total).square().sum() / total.square().sum()).item(),
                cells.flatten(1).square().sum(1).min().item(),
                least_eigenvalue(alpha),
            )
        )
        return {}


def searched(cells: int, epochs: int, seed: int, limit: int | None) -> list[Measured]:
    """Search with DARTS and measure every architecture step."""
    space, callback = ag.spaces.NASBench201(channels=4, cells_per_stage=cells // 3), LayerGradients()
    settings = {"epochs": epochs, "batch_size": 64 if limit is None else 20, "seed": seed, "held_out": 0}
    data = ag.data.digits(limit=limit)
    ag.search(space, ag.recipes.darts(), data, callbacks=[callback], standard_callbacks=False, **settings)
    return callback.found


def medians(values: Sequence[float]) -> tuple[list[int], list[float]]:
    """Return the middle and the median of each window of steps."""
    starts = range(0, len(values), WINDOW)
    return [start + WINDOW // 2 for start in starts], [median(values[start : start + WINDOW]) for start in starts]


def draw(figure: Any, found: dict[str, Any]) -> None:
    """Draw the toy, the saturating edge and the searches."""
    (toy, edge), (both, pairs) = figure.subplots(2, 2)
    toy.semilogy(
        *zip(*found["holds"].items(), strict=True), ".-", label="orthogonal to each other and to the null space"
    )
    counts, values = zip(*((cells, max(one[1], 1e-4)) for cells, one in found["cancelling"].items()), strict=True)
    toy.semilogy(counts, values, "x", label="sum zero: Λ = −1/(L − 1)  (drawn at 1e-4)")
    toy.axhline(1, color="k", linewidth=0.8)
    toy.set(xlabel="cells L", ylabel="left / right of Eq. 6", title="drawn gradients: least ratio")
    logits, values = zip(*found["saturating"].items(), strict=True)
    for place, label in enumerate(("‖∇αL‖²", "bound of Eq. 6")):
        edge.semilogy(logits, [pair[place] for pair in values], label=label)
    edge.set(xlabel="logit of one operation on one edge of six", title="one saturated edge empties the bound")
    for color, (cells, run) in enumerate(found["searches"].items()):
        look = {"color": f"C{color}"}
        both.semilogy(*medians([one.sides.left for one in run]), **look, label=f"L = {cells}, ‖∇αL‖²")
        both.semilogy(*medians([one.sides.right for one in run]), ":", **look, label=f"L = {cells}, bound of Eq. 6")
        pairs.plot(*medians([one.cosine for one in run]), **look, label=f"L = {cells}")
    both.set(xlabel="architecture step", title=f"searches on digits, medians of {WINDOW} steps")
    pairs.axhline(random_cosine(), color="k", linestyle="--", label="random directions")
    pairs.set(xlabel="architecture step", ylabel="mean |cos| of two cells, centered", ylim=(0, None))
    pairs.set(title="the same searches: 0 where cells are orthogonal")
    for axes in (toy, edge, both, pairs):
        axes.grid(alpha=0.3)
        axes.minorticks_off()
        axes.legend(fontsize="x-small")


def print_search(cells: int, run: list[Measured]) -> None:
    """Print the numbers of one search."""
    ratios = [one.sides.left / one.sides.right for one in run]
    inside = [one.sides.left / one.sides.centered for one in run]
    print(f"search, {cells} cells, {len(run)} steps: left/right least {min(ratios):.3g}, median {median(ratios):.3g}, "
          f"below 1 in {sum(value < 1 for value in ratios)} steps; centered: least {min(inside):.3g}, "
          f"below 1 in {sum(value < 1 for value in inside)}")  # fmt: skip
    sums = [one.sum_ratio for one in run]
    plain, inner = (
        fmean(values) for values in zip(*((one.alignment, one.centered_alignment) for one in run), strict=True)
    )
    print(f"  Λ {plain:.3f}, centered {inner:.3f}; "
          f"‖Σg‖²/Σ‖g‖² centered {min(sums):.2f} to {max(sums):.2f}, median {median(sums):.2f}; "
          f"in the null space {fmean(one.null_share for one in run):.2f} of ‖Σg‖²")  # fmt: skip
    shown = [one.cosine for one in run]
    print(f"  mean |cos| of pairs, centered: median {median(shown):.2f}, {min(shown):.2f} to {max(shown):.2f}; "
          f"of random directions {random_cosine():.2f}")  # fmt: skip
    print(f"  L·min‖g‖² median {cells * median(one.shortest for one in run):.2e}; "
          f"least eigenvalue of J {run[0].eigenvalue:.3f} at first, {run[-1].eigenvalue:.4f} at last")  # fmt: skip


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    """Print all numbers and draw them."""
    parser = argparse.ArgumentParser(description="Evaluate Proposition 1 of Λ-DARTS.")
    parser.add_argument("-o", "--output", type=Path, default=Path("lambda.svg"))
    parser.add_argument("--small", action="store_true", help="fewer and smaller searches, for tests")
    chosen = parser.parse_args(arguments)
    found: dict[str, Any] = {
        "holds": where_it_holds(5 if chosen.small else 200),
        "stated": as_stated(),
        "cancelling": {cells: cancelling(cells) for cells in (3, 5, 9, 15, 20)},
        "saturating": {float(logit): saturating(logit) for logit in range(0, 21, 2)},
    }
    holds = found["holds"]
    print(f"assumptions met, L = 1 … {max(holds)}: left/right at least {min(holds.values()):.3f}")
    print("g = (1, 0), (0, 1): ‖∇αL‖² = {:g}, bound {:g}, centered bound {:g}".format(*found["stated"]))
    for cells, (value, ratio) in found["cancelling"].items():
        print(f"sum zero, L = {cells}: Λ {value:.3f}, left/right {abs(ratio):.1e}")
    for logit in (0.0, 10.0, 20.0):
        print("one edge at logit {:g}: ‖∇αL‖² {:.3g}, bound {:.3g}".format(logit, *found["saturating"][logit]))
    plan = [(3, 1, 40)] if chosen.small else [(3, 15, None), (9, 15, None), (15, 15, None)]
    found["searches"] = {cells: searched(cells, epochs, 0, limit) for cells, epochs, limit in plan}
    for cells, run in found["searches"].items():
        print_search(cells, run)
    save_figure(lambda figure: draw(figure, found), chosen.output, (11, 7.5))
    return found


if __name__ == "__main__":
    main()
