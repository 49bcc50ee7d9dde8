"""Cells whose operations sit on edges: mixed in a supernet, fixed in a plain network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, cast

import torch
from torch import Tensor, nn

from archgrad.distributed.pending_norms import after_norm, completed
from archgrad.errors import UserError
from archgrad.operations import Operation, Source, Term, Weighted
from archgrad.operations.kernels import mix
from archgrad.supernet.mixture import CellMixture
from archgrad.supernet.modifiers.auxiliary_skip import with_skip
from archgrad.supernet.modifiers.drop_path import drop_path, kept_images
from archgrad.supernet.modifiers.partial_channels import PartialSource, bypass_weight, shuffle
from archgrad.supernet.modifiers.skip_dropout import is_skip, skip_dropout

__all__ = ["Edge", "FixedCell", "MixedCell", "operation_weights", "set_drop_path"]


@dataclass(frozen=True)
class Edge:
    """The operations between two nodes of a cell, all with the same stride.

    They compute 1/``partial`` of the nodes' channels. ``skip`` is the auxiliary skip connection beside them. Both are
    the same for all edges of a cell. ``choices`` are the names of the operations and ``block`` that of the block which
    decides them, where they are known. ``added`` is a skip connection that each of the operations adds to its output.
    """

    source: int
    target: int
    operations: tuple[Operation, ...]
    stride: int = 1
    partial: int = 1
    skip: Operation | None = None
    choices: tuple[str, ...] = ()
    block: str = ""
    added: Operation | None = None


class _EdgeCell(nn.Module):
    """Nodes that sum their incoming edges; nodes 0 … ``inputs``-1 are the cell's inputs."""

    def __init__(self, edges: Sequence[Edge], inputs: int, nodes: int) -> None:
        super().__init__()
        self.inputs, self.nodes, self.partial = inputs, nodes, max((edge.partial for edge in edges), default=1)
        self.edges = nn.ModuleList(nn.ModuleList(edge.operations) for edge in edges)
        self.skips = nn.ModuleList(edge.skip for edge in edges if edge.skip is not None)
        self.added = nn.ModuleList(edge.added for edge in edges if edge.added is not None)
        self._entering = {
            target: [(index, edge) for index, edge in enumerate(edges) if edge.target == target]
            for target in range(inputs, nodes)
        }
        self._read = {edge.source for edge in edges}

    @property
    def connections(self) -> tuple[Edge, ...]:
        """The edges, in the order of the nodes they lead to."""
        return tuple(edge for entering in self._entering.values() for _, edge in entering)


class MixedCell(_EdgeCell):
    """Node j = Σ over edges (i, j) and operations o of p[edge, o] · o(node i).

    Every node is one :class:`~archgrad.operations.Source`, so its outgoing edges share work. Inactive operations do not
    run. Drop-path drops the others for some images; each operation has its own random stream.

    With partial channels (PC-DARTS, Xu et al., 2020, Eq. 2), node j = shuffle(Σ p[edge, o] · o(x₁) ‖ Σ β[edge] · x₂),
    where x₁ are the first C/k channels of node i and x₂ the others, max-pooled on edges of stride 2. The mixture's p
    already contains the factor β. Without edge weights β[edge] is Σ p[edge, o] as a constant: 1 on the simplex, and 0
    for a removed edge.

    With auxiliary skip connections (DARTS-, Chu et al., 2021) every edge also adds β·skip(node i), with one β for all
    edges. It is not part of the mixture, is never inactive or dropped, and edge weights do not scale it. With partial
    channels it is added to the channels of the operations. A skip connection that the choices themselves add
    (``Edge.added``) has the weight Σ p[edge, o] instead, and a plain network has it too.
    """

    is_cell: ClassVar[bool] = True
    """The unit that a backward pass may compute again (:func:`~archgrad.supernet.recompute_cells`)."""

    @property
    def auxiliary_skip(self) -> bool:
        """Whether its edges have auxiliary skip connections."""
        return len(self.skips) > 0

    def forward(self, inputs: Sequence[Tensor], mixture: CellMixture) -> list[Tensor]:
        """Return all nodes; ``inputs`` are the first ones."""
        nodes = list(inputs)
        sources = {node: self._source(node, x, mixture) for node, x in enumerate(inputs)}
        for target in range(self.inputs, self.nodes):
            x = self._node(target, sources, mixture)
            nodes.append(x)
            sources[target] = self._source(target, x, mixture)
        return nodes

    def _node(self, target: int, sources: Mapping[int, Source], mixture: CellMixture) -> Tensor:
        """Compute a node from the nodes that it reads."""
        x = self._computed(target, sources, mixture)
        if self.partial == 1:
            return x
        return shuffle(torch.cat([x, self._bypassed(target, sources, mixture)], dim=1), self.partial)

    def _source(self, node: int, x: Tensor, mixture: CellMixture) -> Source:
        if self.partial == 1 or node not in self._read:
            return Source(x, mixture.stream)
        return PartialSource(x, mixture.stream, self.partial)

    def _computed(self, target: int, sources: Mapping[int, Source], mixture: CellMixture) -> Tensor:
        """Return the sum of the operations on the edges into a node."""
        terms: list[Term] = []
        for index, edge in self._entering[target]:
            source = sources[edge.source]
            of_edge = [
                _term(operation, source, weight, mixture, (index, choice))
                for choice, (operation, weight) in enumerate(zip(edge.operations, mixture.weights[index], strict=False))
                if weight is not None
            ]
            of_edge = _with_inputs(of_edge, edge, source, mixture.weights[index])
            if mixture.skip and edge.skip is not None:
                of_edge = with_skip(of_edge, edge.skip.mixed(source, source.x.new_full((), mixture.skip)))
            terms += of_edge
        done = completed(terms)
        scaled = [term for term in done if isinstance(term, Weighted)]
        addends = [term for term in done if isinstance(term, Tensor)]
        return mix(addends, scaled) if addends or scaled else self._silent(target, sources)

    def _silent(self, target: int, sources: Mapping[int, Source]) -> Tensor:
        """Return zeros of the node's size, for a node without active inputs."""
        edge = self._entering[target][0][1]
        return torch.zeros_like(sources[edge.source].x[:, :, :: edge.stride, :: edge.stride])

    def _bypassed(self, target: int, sources: Mapping[int, Source], mixture: CellMixture) -> Tensor:
        """Return the sum of the channels that bypass the operations on the edges into a node."""
        addends: list[Tensor] = []
        scaled: list[Weighted] = []
        for index, edge in self._entering[target]:
            weight = bypass_weight(index, len(edge.operations), mixture)
            if weight is None:
                continue
            rest = cast("PartialSource", sources[edge.source]).bypass(edge.stride)
            if weight.dim():
                addends.append(rest * weight[:, None, None, None])
            else:
                scaled.append(Weighted(rest, weight))
        if addends or scaled:
            return mix(addends, scaled)
        edge = self._entering[target][0][1]
        return torch.zeros_like(cast("PartialSource", sources[edge.source]).bypass(edge.stride))


def operation_weights(supernet: nn.Module) -> dict[str, tuple[str, ...]]:
    """Return the names of the trained weights of each operation of each mixed cell, by the operation's name.

    Operations without weights, such as skip connections and pooling, are left out.
    """
    found: dict[str, tuple[str, ...]] = {}
    for place, cell in supernet.named_modules():
        for name, operation in cell.edges.named_modules() if isinstance(cell, MixedCell) else ():
            if name.count(".") == 1:  # the edge, the choice
                own = f"{place}.edges.{name}" if place else f"edges.{name}"
                weights = [weight for weight, value in operation.named_parameters() if value.requires_grad]
                found |= {own: tuple(f"{own}.{weight}" for weight in weights)} if weights else {}
    return found


def _term(operation: Operation, source: Source, weight: Tensor, mixture: CellMixture, place: tuple[int, int]) -> Term:
    """Return weight · operation(source) after drop-path and skip dropout; ``place`` names its random streams."""

    def dropped(term: Tensor | Weighted | None) -> Tensor | Weighted | None:
        if term is None:
            return None
        if mixture.by_image:
            term = _by_image(term, weight)
        if mixture.drop_path and operation.droppable:
            term = drop_path(term, mixture.drop_path, source.generator("drop_path", *place))
        if mixture.skip_dropout and is_skip(operation):
            term = skip_dropout(term, mixture.skip_dropout, source.generator("skip_dropout", *place))
        return term

    found: Term = after_norm(operation.mixed(source, weight.new_ones(()) if mixture.by_image else weight), dropped)
    return found


def _with_inputs(terms: list[Term], edge: Edge, source: Source, weights: Sequence[Tensor | None]) -> list[Term]:
    """Add weight · source for every residual operation, in one term with a skip connection among the choices.

    An ``added`` skip connection has the sum of all weights, so it runs once.
    """
    active = [(one, weight) for one, weight in zip(edge.operations, weights, strict=False) if weight is not None]
    if own := [weight for one, weight in active if one.residual]:
        total = torch.stack(own).sum(0)
        terms = with_skip(terms, _by_image(source.x, total) if total.dim() else Weighted(source.x, total))
    if edge.added is None or not active:
        return terms
    total = torch.stack([weight for _, weight in active]).sum(0)
    if not total.dim():
        return with_skip(terms, edge.added.mixed(source, total))
    added = edge.added.mixed(source, total.new_ones(()))
    return [*terms, after_norm(added, lambda term: None if term is None else _by_image(term, total))]


def _by_image(term: Tensor | Weighted, weight: Tensor) -> Tensor:
    """Return ``weight[n]`` · term[n] for every image n."""
    plain, factor = term if isinstance(term, Weighted) else (term, weight.new_ones(()))
    return plain * (factor * weight)[:, None, None, None]


class FixedCell(_EdgeCell):
    """Node j = Σ over its edges (i, j) of the chosen operation of node i.

    In training mode an operation is dropped for an image with probability ``drop_path``; the global generator draws.
    """

    drop_path: float = 0.0

    def forward(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Return all nodes; ``inputs`` are the first ones."""
        nodes = list(inputs)
        for target in range(self.inputs, self.nodes):
            terms = [self._edge(edge, nodes[edge.source]) for _, edge in self._entering[target]]
            nodes.append(sum(terms[1:], start=terms[0]))
        return nodes

    def _edge(self, edge: Edge, x: Tensor) -> Tensor:
        term = self._term(edge.operations[0], x)
        return term if edge.added is None else term + edge.added(x)

    def _term(self, operation: Operation, x: Tensor) -> Tensor:
        output: Tensor = operation(x)
        if self.training and self.drop_path and operation.droppable:
            output = output * kept_images(output, self.drop_path)
        return output + x if operation.residual else output


def set_drop_path(network: nn.Module, probability: float) -> None:
    """Set the probability with which a plain network drops operations in training mode."""
    cells = [module for module in network.modules() if isinstance(module, FixedCell)]
    if probability and not cells:
        raise UserError("this network has no cells with operations on edges, so it has no drop-path; set it to 0.")
    for cell in cells:
        cell.drop_path = probability
