"""The latencies of NAS-Bench-201's cells on devices, from a CSV file, and their model as a sum over edges.

The file has a line for each cell: ``arch``, and a column of milliseconds for each device. ``index`` and ``source`` are
no devices. A zero or an empty field is a missing value, and cells may be missing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from archgrad.errors import UserError, look_up
from archgrad.parts.fields import checked
from archgrad.spaces.block import DecisionBlock
from archgrad.spaces.cell_columns import read_cell_columns
from archgrad.spaces.choice_costs import ChoiceCosts
from archgrad.spaces.genotype import Genotype
from archgrad.spaces.nasbench201 import NASBench201
from archgrad.spaces.nasbench201_cells import CELLS, EDGES, OPERATIONS, code_of
from archgrad.spaces.space import SearchSpace
from archgrad.system.data_files import data_files, load_once

__all__ = ["NO_DEVICES", "LatencyFit", "LatencyTable", "design_of", "find_latencies", "fit_latencies", "open_latencies"]

NO_DEVICES = ("index", "arch", "source")
"""The columns of a table that are no devices."""
_FORM = "give a CSV file with the column arch and a column of milliseconds for each device"


@dataclass(frozen=True, eq=False)
class LatencyTable:
    """The milliseconds of cells by device and code: ``columns[device][code]``, NaN where they are not known."""

    columns: Mapping[str, Tensor] = field(repr=False)
    source: str

    @property
    def devices(self) -> tuple[str, ...]:
        """The names of the devices."""
        return tuple(self.columns)

    def device(self, name: str | None) -> str:
        """Return the name of a device of this table; None stands for its only one."""
        if name is None and len(self.columns) > 1:
            raise UserError(f"the table {self.source} has several devices; name one of {', '.join(self.columns)}.")
        known = {device: device for device in self.columns}
        return next(iter(known)) if name is None else look_up("device", name, known)

    @checked
    def milliseconds(self, genotype: Genotype | str, device: str) -> float | None:
        """Return the latency of a cell on a device; None if the table does not have it."""
        found = float(self.columns[self.device(device)][code_of(genotype)])
        return None if math.isnan(found) else found


class LatencyFit(NamedTuple):
    """An additive model of latencies in seconds, and how well it fits the ``cells`` it was fitted to.

    ``r2`` is 1 − Σ (t − t̂)² / Σ (t − mean t)², and ``rank_correlation`` is Spearman's, of t and t̂.
    """

    costs: ChoiceCosts
    cells: int
    r2: float
    rank_correlation: float


def fit_latencies(space: SearchSpace, milliseconds: Tensor) -> LatencyFit:
    """Return the additive model of least squares, from all cells of the space whose latency is known.

        t(cell) = c_0 + Σ over edges of c[edge, operation],     c[edge, first operation of the edge] = 0.

    A latency is not such a sum: devices fuse, cache and run operations side by side. So the fit has an error.
    """
    if not isinstance(space, NASBench201):
        raise UserError(
            f"a latency table has cells of NAS-Bench-201, and the space is {space.name!r}; search nasbench201, or "
            f"leave device and table out to time the operations on this machine."
        )
    (block,) = space.blocks
    design, inside = design_of(block)
    known = inside & milliseconds.isfinite()
    rows, times = design[known], milliseconds[known] / 1000
    found = torch.linalg.lstsq(rows, times, driver="gelsd") if len(rows) else None
    if found is None or int(found.rank) < rows.shape[1]:
        raise UserError(
            f"the latencies of {len(rows)} cells do not determine those of all operations on all edges; give a table "
            f"with more cells of the space."
        )
    costs = torch.zeros(block.shape, dtype=torch.float64)
    for (row, choice), value in zip(_pairs(block), found.solution[1:].tolist(), strict=True):
        costs[row, choice] = value
    error = ((times - rows @ found.solution).square().sum() / (times - times.mean()).square().sum()).item()
    model = ChoiceCosts(space.blocks, float(found.solution[0]), {block.name: costs})
    return LatencyFit(model, len(rows), 1 - error, _rank_correlation(times, rows @ found.solution))


def design_of(block: DecisionBlock) -> tuple[Tensor, Tensor]:
    """Return the design matrix ``[cells, 1 + choices but the first of each edge]``, and which cells a block has."""
    codes = torch.arange(CELLS)[:, None]
    digits = codes // len(OPERATIONS) ** torch.arange(len(EDGES) - 1, -1, -1) % len(OPERATIONS)
    chosen = {
        (row, choice): digits[:, row] == OPERATIONS.index(name)
        for row, one in enumerate(block.rows)
        for choice, name in enumerate(one.choices)
    }
    allowed = [
        torch.stack([chosen[row, choice] for choice in range(len(one.choices))]).any(0)
        for row, one in enumerate(block.rows)
    ]
    columns = [torch.ones(CELLS, dtype=torch.bool), *(chosen[pair] for pair in _pairs(block))]
    return torch.stack(columns, 1).double(), torch.stack(allowed).all(0)


def _pairs(block: DecisionBlock) -> list[tuple[int, int]]:
    return [(row, choice) for row, one in enumerate(block.rows) for choice in range(1, len(one.choices))]


def _rank_correlation(first: Tensor, second: Tensor) -> float:
    from scipy.stats import spearmanr

    return float(spearmanr(first.numpy(), second.numpy()).statistic)


@checked
def find_latencies(path: str | Path | None = None) -> LatencyTable | None:
    """Return the table at ``path``, else that of ``$ARCHGRAD_DATA``, else None."""
    for found in [path] if path is not None else data_files("nasbench201", "latency.csv"):
        return load_once(_load, found, "latency table")
    return None


@checked
def open_latencies(path: str | Path | None = None) -> LatencyTable:
    """Return the table of :func:`find_latencies`; without one, raise a UserError that says how to get it."""
    table = find_latencies(path)
    if table is None:
        raise UserError(
            "no latency table was found; put one at $ARCHGRAD_DATA/nasbench201/latency.csv, name the file, or measure "
            "this machine: archgrad measure-latency -o FILE."
        )
    return table


def _load(path: Path) -> LatencyTable:
    def devices(header: Sequence[str]) -> list[str]:
        return [name for name in header if name not in NO_DEVICES]

    found = read_cell_columns(path, "latency table", devices, ("a latency", math.inf), _FORM)
    return LatencyTable({name: column.where(column > 0, math.nan) for name, column in found.items()}, str(path))
