"""Cells whose operations sit on nodes, and whose nodes choose their inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from archgrad.operations import ConvBNReLU
from archgrad.operations.kernels import mix
from archgrad.supernet.cell import Edge, MixedCell
from archgrad.supernet.mixture import CellMixture

__all__ = ["MixedNodeCell", "NodeMixture"]

_Reading = dict[int, Tensor | None]
"""The inputs of a node: node numbers with their weights, each a scalar or ``[N]``; None means weight 1."""


class NodeMixture(NamedTuple):
    """The mixture of one cell: weights of the operations at nodes, of the nodes' inputs and of the cell's output."""

    operations: CellMixture
    inputs: CellMixture
    output: CellMixture


class MixedNodeCell(MixedCell):
    """Node j = Σ over operations o of p[j, o] · o(Σ over i < j of a[j, i] · xᵢ), for the nodes 1 … n.

    x₀ is the cell's input after the projection of node j, and xᵢ is node i. The cell's output is the concatenation of
    b[i] · xᵢ, plus b[0] times the input after a projection as wide as all nodes together (NAS-Bench-1Shot1, Zela et
    al., 2020, Section 3). ``reads`` maps each node with a row in the mixture's inputs to the nodes that this row
    weights; the key n+1 is the output. A node without a row reads all nodes before it with weight 1.

    Each node is an edge from the sum of its inputs to the sum of its operations, so partial channels, drop-path and
    auxiliary skip connections are those of :class:`~archgrad.supernet.MixedCell`. Nodes without an active path to the
    output are not computed.
    """

    def __init__(
        self, operations: Sequence[Edge], projections: Sequence[ConvBNReLU], reads: Mapping[int, Sequence[int]]
    ) -> None:
        super().__init__(operations, inputs=1, nodes=2 * len(operations) + 1)
        self.projections = nn.ModuleList(projections)
        self.output = len(operations) + 1
        self.reads = {node: tuple(sources) for node, sources in reads.items()}

    def forward(self, x: Tensor, mixture: NodeMixture) -> list[Tensor]:  # type: ignore[override]
        """Return the input, each node before and after its operations, and the cell's output, in this order."""
        reading: dict[int, _Reading] = {node: dict.fromkeys(range(node)) for node in range(1, self.output)}
        rows = [*mixture.inputs.weights, *mixture.output.weights]
        reading |= {node: _active(sources, row) for (node, sources), row in zip(self.reads.items(), rows, strict=True)}
        wanted = _leading_to(self.output, reading)
        projected = self._projected(x, [node for node in wanted if 0 in reading[node]])
        nodes, values = [x], dict[int, Tensor]()
        for node in range(1, self.output):
            if node in wanted:
                entered, values[node] = self._visited(node, x, projected, reading[node], values, mixture.operations)
                nodes += [entered, values[node]]
            else:
                nodes += [self._silence(x)] * 2
        return [*nodes, self._concatenated(x, projected, reading[self.output], values)]

    def _projected(self, x: Tensor, nodes: Sequence[int]) -> dict[int, Tensor]:
        """Return the cell's input as each of these nodes reads it."""
        return {node: self.projections[node - 1](x) for node in nodes}

    def _visited(
        self,
        node: int,
        x: Tensor,
        projected: Mapping[int, Tensor],
        reading: _Reading,
        values: Mapping[int, Tensor],
        operations: CellMixture,
    ) -> tuple[Tensor, Tensor]:
        """Return a node before and after its operations."""
        terms = [(values[i] if i else projected[node], weight) for i, weight in reading.items()]
        entered = _sum(terms) if terms else self._silence(x)
        before, after = 2 * node - 1, 2 * node
        return entered, self._node(after, {before: self._source(before, entered, operations)}, operations)

    def _concatenated(
        self, x: Tensor, projected: Mapping[int, Tensor], reading: _Reading, values: Mapping[int, Tensor]
    ) -> Tensor:
        """Return the cell's output."""
        parts = [
            _sum([(values[node], reading[node])]) if node in reading else self._silence(x)
            for node in range(1, self.output)
        ]
        whole = torch.cat(parts, dim=1)
        return _sum([(whole, None), (projected[self.output], reading[0])]) if 0 in reading else whole

    def _silence(self, x: Tensor) -> Tensor:
        """Return zeros of a node's size that take no memory."""
        width = cast("ConvBNReLU", self.projections[0]).conv.out_channels
        return x.new_zeros(()).expand(x.shape[0], width, *x.shape[2:])


def _active(sources: Sequence[int], weights: Sequence[Tensor | None]) -> _Reading:
    return {node: weight for node, weight in zip(sources, weights, strict=False) if weight is not None}


def _leading_to(output: int, reading: Mapping[int, _Reading]) -> set[int]:
    """Return the output and all nodes that it reads, directly or through others."""
    wanted = {output}
    for node in range(output, 0, -1):
        if node in wanted:
            wanted |= reading[node].keys() - {0}
    return wanted


def _sum(terms: Sequence[tuple[Tensor, Tensor | None]]) -> Tensor:
    """Return Σ weight·x over pairs (x, weight); a weight is a scalar, one per image, or None for 1."""
    plain = [x if weight is None else x * weight[:, None, None, None] for x, weight in terms if _is_addend(weight)]
    scaled = [(x, weight) for x, weight in terms if weight is not None and not weight.dim()]
    return mix(plain, scaled)


def _is_addend(weight: Tensor | None) -> bool:
    return weight is None or weight.dim() == 1
