"""Cells whose operations sit on edges: mixed in a supernet, fixed in a plain network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from archgrad.operations import Operation, Source, Weighted
from archgrad.operations.kernels import mix
from archgrad.supernet.drop_path import drop_path
from archgrad.supernet.mixture import CellMixture

__all__ = ["Edge", "FixedCell", "MixedCell"]


@dataclass(frozen=True)
class Edge:
    """The operations offered between two nodes of a cell, and the stride they all have."""

    source: int
    target: int
    operations: tuple[Operation, ...]
    stride: int = 1


class _EdgeCell(nn.Module):
    """Nodes that sum their incoming edges; nodes 0 … ``inputs``-1 are given."""

    def __init__(self, edges: Sequence[Edge], inputs: int, nodes: int) -> None:
        super().__init__()
        self.inputs, self.nodes = inputs, nodes
        self.edges = nn.ModuleList(nn.ModuleList(edge.operations) for edge in edges)
        self._entering = {
            target: [(index, edge) for index, edge in enumerate(edges) if edge.target == target]
            for target in range(inputs, nodes)
        }


class MixedCell(_EdgeCell):
    """Node j = Σ over edges (i, j) and operations o of p[edge, o] · o(node i).

    Every node is one :class:`~archgrad.operations.Source`, so what its outgoing edges have in common is computed once.
    Inactive operations are not run, and drop-path silences the others for some images, each drawn from its own stream.
    """

    def forward(self, inputs: Sequence[Tensor], mixture: CellMixture) -> list[Tensor]:
        """Return all nodes; ``inputs`` are the first ones."""
        sources = [Source(x, mixture.stream) for x in inputs]
        for target in range(self.inputs, self.nodes):
            sources.append(Source(self._node(target, sources, mixture), mixture.stream))
        return [source.x for source in sources]

    def _node(self, target: int, sources: Sequence[Source], mixture: CellMixture) -> Tensor:
        addends: list[Tensor] = []
        scaled: list[Weighted] = []
        for index, edge in self._entering[target]:
            source = sources[edge.source]
            for choice, (operation, weight) in enumerate(zip(edge.operations, mixture.weights[index], strict=False)):
                term = None if weight is None else operation.mixed(source, weight)
                if mixture.drop_path and operation.droppable and term is not None:
                    term = drop_path(term, mixture.drop_path, source.generator("drop_path", index, choice))
                if isinstance(term, Weighted):
                    scaled.append(term)
                elif term is not None:
                    addends.append(term)
        return mix(addends, scaled) if addends or scaled else self._silent(target, sources)

    def _silent(self, target: int, sources: Sequence[Source]) -> Tensor:
        """Zeros of the node's size, for a node that nothing active enters."""
        edge = self._entering[target][0][1]
        return torch.zeros_like(sources[edge.source].x[:, :, :: edge.stride, :: edge.stride])


class FixedCell(_EdgeCell):
    """Node j = Σ over its edges (i, j) of the chosen operation of node i."""

    def forward(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Return all nodes; ``inputs`` are the first ones."""
        nodes = list(inputs)
        for target in range(self.inputs, self.nodes):
            terms = [edge.operations[0](nodes[edge.source]) for _, edge in self._entering[target]]
            nodes.append(sum(terms[1:], start=terms[0]))
        return nodes
