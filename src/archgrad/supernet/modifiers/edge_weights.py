"""Edge weights: a simplex over the edges that enter each node (PC-DARTS, Xu et al., 2020, Section 3.3)."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["EdgeWeights", "WeightedRows"]


class WeightedRows(NamedTuple):
    """The weights ``[…, rows, choices]`` of a block times its edge weights ``edges [… , rows, 1]``, if it has any.

    ``active`` and ``active_edges`` mark the entries to compute; None marks all.
    """

    weights: Tensor
    active: Tensor | None
    edges: Tensor | None
    active_edges: Tensor | None

    @property
    def marks(self) -> dict[str, Tensor | None]:
        """The marks by what they mark."""
        return {"weights": self.active, "edges": self.active_edges}


@dataclass(frozen=True)
class EdgeWeights:
    """Where to find the edge weights of a block: that of row r is at ``places[r]`` = (row, choice) of ``block``."""

    block: str
    places: tuple[tuple[int, int], ...]

    def of_rows(self, table: Tensor) -> Tensor:
        """Look up the edge weights of all rows, ``[..., rows]``, in the tensor of that block."""
        rows, choices = zip(*self.places, strict=True)
        if table.device.type == "cpu":
            return table[..., list(rows), list(choices)]
        return table[(..., *_indices(rows, choices, table.device))]

    def weigh(self, weights: Tensor, table: Tensor, active: Tensor | None, active_edges: Tensor | None) -> WeightedRows:
        """Multiply each row by the weight of its edge: β[edge]·p[edge, o]; nothing is active on an inactive edge."""
        edges = self.of_rows(table).unsqueeze(-1)
        if weights.dim() > edges.dim():
            edges = edges.unsqueeze(1)
        elif weights.dim() < edges.dim():
            weights = weights.unsqueeze(1)
        on = None
        if active_edges is not None:
            on = self.of_rows(active_edges).unsqueeze(-1)
            active = on.expand(-1, -1, weights.shape[-1]) if active is None else active & on
        return WeightedRows(weights * edges, active, edges, on)


@functools.lru_cache(maxsize=64)
def _indices(rows: tuple[int, ...], choices: tuple[int, ...], device: torch.device) -> tuple[Tensor, Tensor]:
    """Return indices as tensors, copied to a device once."""
    with torch.inference_mode(False):  # they may be used where gradients are recorded
        return torch.tensor(rows, device=device), torch.tensor(choices, device=device)
