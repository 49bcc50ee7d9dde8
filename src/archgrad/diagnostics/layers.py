"""The cells of a supernet compared: gradients of their mixtures and nodes, and outputs of their convolutions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations
from statistics import mean
from typing import Any

import torch
from torch import Tensor, nn

from archgrad.autodiff.gradients import leaves
from archgrad.autodiff.tensors import MixtureGradients
from archgrad.errors import UserError
from archgrad.hypergradients import EvaluationPoint, Hypergradient, HypergradientState
from archgrad.operations import FactorizedReduce, Operation, Projection
from archgrad.parts.fields import checked
from archgrad.supernet import Edge, MixedCell, MixedLayer
from archgrad.system.devices import widened

__all__ = ["StageSimilarity", "average_similarity", "layer_gradients", "layer_similarity"]


@checked
def layer_gradients(
    point: EvaluationPoint, hypergradient: Hypergradient, state: HypergradientState | None = None
) -> MixtureGradients:
    """Return dL2/dp of every cell's mixture, ``{block: [cells, rows, choices]}`` (Λ-DARTS, Eq. 20).

    The α of the ``point`` is the mixture, with a copy p_ℓ for each cell: its losses are functions of (w, p, batch).
    Second-order DARTS gives ∂L2/∂p_ℓ(w') − γ·∂²L1/∂p_ℓ∂w·∂L2/∂w(w'), and every other hypergradient its own estimate;
    one of order 1 gives ∂L2/∂p_ℓ. It begins at the ``state`` of the search, by default at the initial one. The
    relaxation's pullback of their sum, Σ_ℓ (∂p_ℓ/∂α)ᵀ·dL2/dp_ℓ, is dL2/dα.

    >>> import torch
    >>> from archgrad.bilevel.problem import BilevelProblem
    >>> from archgrad.hypergradients import Unrolled, evaluate_at
    >>> loss = lambda w, p, x: (w["w"] * p["cell"]).sum() ** 2 / 2
    >>> w, p = {"w": torch.tensor([1.0, 2.0])}, {"cell": torch.tensor([1.0, 1.0])}
    >>> with evaluate_at(BilevelProblem(loss, loss), w, p, None, None) as point:
    ...     layer_gradients(point, Unrolled(lr=0.1))
    {'cell': tensor([0.4800, 2.4000])}
    """
    return hypergradient.estimate_once(point, state) if hypergradient.order > 1 else point.direct()


@dataclass(frozen=True)
class StageSimilarity:
    """How alike the ``cells`` cells of one stage are: mean cosines over all pairs of them (Λ-DARTS, Fig. 6).

    ``node_gradients`` compares ∂L2/∂x of the same node in two cells. ``convolutions`` compares the outputs of the same
    convolution on the same edge, None if no edge offers one.
    """

    channels: int
    size: tuple[int, int]
    cells: int
    node_gradients: float
    convolutions: float | None


@dataclass(frozen=True, eq=False)
class _CellOutputs:
    """The outputs of one cell: its nodes, which gradients can flow through, and its convolutions, detached."""

    edges: tuple[Edge, ...]
    inputs: int
    nodes: list[Tensor]
    convolutions: list[Tensor]

    @property
    def kind(self) -> tuple[Any, ...]:
        """The shapes of the nodes and the operations, which two cells must share to be compared.

        Nodes are numbered from the first that the cell computes, so that the layers of a chain can be alike.
        """
        edges = tuple(
            (edge.source - self.inputs, edge.target - self.inputs, edge.stride, *map(type, edge.operations))
            for edge in self.edges
        )
        return tuple(tuple(node.shape[1:]) for node in self.nodes), edges


@checked
def layer_similarity(point: EvaluationPoint, supernet: nn.Module) -> tuple[StageSimilarity, ...]:
    """Compare the cells of a ``supernet`` on the outer batch of a point, stage by stage.

    Only cells with the same node shapes and the same operations are compared, which are those of one stage. Each cosine
    is over all images of the batch at once, as in the product of Eq. 21.
    """
    weights, alpha = leaves(point.weights), leaves(point.alpha)  # a regularizer may differentiate the loss by α
    with _record_cells(supernet) as seen:
        loss = point.problem.outer(weights, alpha, point.outer_batch)
    flat = [node for cell in seen for node in cell.nodes if node.requires_grad]
    found = iter(torch.autograd.grad(loss, flat, allow_unused=True, materialize_grads=True))
    gradients = [
        [next(found) if node.requires_grad else torch.zeros_like(node) for node in cell.nodes] for cell in seen
    ]
    stages: dict[tuple[Any, ...], list[int]] = {}
    for place, cell in enumerate(seen):
        stages.setdefault(cell.kind, []).append(place)
    compared = [places for places in stages.values() if len(places) > 1]
    if not compared:
        raise UserError(
            f"no two of the {len(seen)} cells have the same shape, so there is nothing to compare; "
            f"search with more cells."
        )
    return tuple(_compared([seen[at] for at in places], [gradients[at] for at in places]) for places in compared)


@checked
def average_similarity(measured: Sequence[Sequence[StageSimilarity]]) -> tuple[StageSimilarity, ...]:
    """Return the means over several batches."""
    return tuple(
        StageSimilarity(
            stages[0].channels,
            stages[0].size,
            stages[0].cells,
            mean(stage.node_gradients for stage in stages),
            _mean_of([stage.convolutions for stage in stages if stage.convolutions is not None]),
        )
        for stages in zip(*measured, strict=True)
    )


def _compared(cells: Sequence[_CellOutputs], gradients: Sequence[Sequence[Tensor]]) -> StageSimilarity:
    shape = cells[0].nodes[-1].shape
    return StageSimilarity(
        shape[1],
        (shape[2], shape[3]),
        len(cells),
        _mean_of(_cosines(gradients)) or 0.0,
        _mean_of(_cosines([cell.convolutions for cell in cells])),
    )


def _cosines(rows: Sequence[Sequence[Tensor]]) -> list[float]:
    """Return the cosines between all pairs of rows, entry by entry; 0 where an entry is zero."""
    return [
        torch.nn.functional.cosine_similarity(widened(one.flatten()), widened(other.flatten()), dim=0).item()
        for first, second in combinations(rows, 2)
        for one, other in zip(first, second, strict=True)
    ]


def _mean_of(values: Sequence[float]) -> float | None:
    return mean(values) if values else None


@contextmanager
def _record_cells(supernet: nn.Module) -> Iterator[list[_CellOutputs]]:
    """Record the outputs of every mixed cell of a supernet while the block runs."""
    seen: list[_CellOutputs] = []

    def note(cell: MixedCell, given: tuple[Any, ...], found: Any) -> None:
        nodes = [*[given[0]] * cell.inputs, found] if isinstance(cell, MixedLayer) else found
        with torch.no_grad():
            outputs = [operation(x) for operation, x in _convolutions(cell, nodes)]
        seen.append(_CellOutputs(cell.connections, cell.inputs, nodes[cell.inputs :], outputs))

    handles = [cell.register_forward_hook(note) for cell in supernet.modules() if isinstance(cell, MixedCell)]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


def _convolutions(cell: MixedCell, nodes: Sequence[Tensor]) -> Iterator[tuple[Operation, Tensor]]:
    """Yield each operation with weights, except skips that reduce, and its input."""
    for edge in cell.connections:
        x = nodes[edge.source]
        for operation in edge.operations:
            if any(True for _ in operation.parameters()) and not isinstance(operation, FactorizedReduce | Projection):
                yield operation, x[:, : x.shape[1] // cell.partial]
