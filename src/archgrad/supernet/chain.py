"""Layers of a chain: cells of one edge, whose operations may change width and resolution."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from torch import Tensor

from archgrad.operations import Source
from archgrad.supernet.cell import Edge, FixedCell, MixedCell
from archgrad.supernet.mixture import CellMixture

__all__ = ["FixedLayer", "MixedLayer"]


class MixedLayer(MixedCell):
    """x_l = Σ_o p[l, o] · o(x_{l-1}): layer l of a chain, the edge from node l - 1 to node l, with its own row of p."""

    def __init__(self, edge: Edge, channels: int) -> None:
        super().__init__([edge], edge.target, edge.target + 1)
        self.edge, self.channels = edge, channels

    def forward(self, x: Tensor, mixture: CellMixture) -> Tensor:  # type: ignore[override]
        """Map ``x`` by the layer's row of the chain's mixture."""
        row, node = self.edge.source, self.edge.target
        own = replace(mixture, weights=mixture.weights[row : row + 1], stream=(*mixture.stream, row))
        return self._node(node, {self.edge.source: self._source(self.edge.source, x, own)}, own)

    def _silent(self, target: int, sources: Mapping[int, Source]) -> Tensor:
        x, step = sources[self.edge.source].x, self.edge.stride
        return x.new_zeros(len(x), self.channels, *(-(-size // step) for size in x.shape[2:]))


class FixedLayer(FixedCell):
    """The chosen operation of a layer."""

    def __init__(self, edge: Edge) -> None:
        super().__init__([edge], edge.target, edge.target + 1)

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        """Map ``x`` by the operation."""
        (edge,) = self.connections
        return self._term(edge.operations[0], x)
