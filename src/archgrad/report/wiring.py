"""The content of a drawing: the nodes of a block, their labels and their edges."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from archgrad.errors import escaped
from archgrad.spaces.genotype import CellGenotype, Decision, Genotype
from archgrad.spaces.notation.node_form import NodeChoice, nodes_of

__all__ = ["NodeWiring", "Wiring", "kind_of", "printable"]

_LONGEST_NAME = 60
_KINDS = (
    ("none", ("none", "zero", "zeroize")),
    ("convolution", ("conv",)),
    ("pooling", ("pool",)),
    ("skip", ("skip", "identity")),
)
_CELL_INPUTS = ((0, "c_{k-2}"), (1, "c_{k-1}"))


def kind_of(choice: str) -> str:
    """Return the kind of an operation: none, convolution, pooling, skip or other."""
    lowered = choice.lower()
    for kind, words in _KINDS:
        if lowered in words or (kind != "none" and any(word in lowered for word in words)):
            return kind
    return "other"


def printable(name: str) -> str:
    """Return an untrusted name as one short line of printable characters."""
    shown = escaped(name[:_LONGEST_NAME], keep="")
    return shown if len(name) <= _LONGEST_NAME else f"{shown}…"


@dataclass(frozen=True)
class Wiring:
    """The nodes of one block in order, with the decisions on them and the edges into them."""

    nodes: tuple[int, ...]
    labels: dict[int, str]
    inputs: frozenset[int]
    edges: dict[int, tuple[Decision, ...]]
    choices: dict[int, tuple[Decision, ...]]
    concat: tuple[int, ...] | None

    @classmethod
    def of(cls, cell: CellGenotype) -> Wiring:
        """Return the wiring of a block."""
        edges = [decision for decision in cell if decision.source is not None]
        choices = [decision for decision in cell if decision.source is None]
        targets = {decision.target for decision in cell}
        sources = {decision.source for decision in edges if decision.source is not None}
        named = _cell_inputs(cell, targets)
        nodes = tuple(sorted(targets | sources | set(cell.concat or ()) | set(named)))
        labels = {node: named.get(node, str(node)) for node in nodes}
        inputs = frozenset(nodes) - targets
        return cls(nodes, labels, inputs, _by_target(edges), _by_target(choices), cell.concat)

    @property
    def output_label(self) -> str:
        """The label of the concatenation."""
        return "c_{k}" if self.labels.get(0) == _CELL_INPUTS[0][1] else "output"

    @property
    def last(self) -> int | None:
        """The output node of a cell without concatenation; None if there is none."""
        return self.nodes[-1] if self.concat is None and self.edges else None


@dataclass(frozen=True)
class NodeWiring:
    """The cell of a genotype with operations on nodes: its nodes from 1 to the output, and those that lead nowhere."""

    nodes: tuple[NodeChoice, ...]
    loose: frozenset[int]

    @classmethod
    def of(cls, genotype: Genotype) -> NodeWiring | None:
        """Return the wiring; None for a genotype of another kind."""
        nodes = nodes_of(genotype)
        if nodes is None:
            return None
        leading = {len(nodes)}
        for number in range(len(nodes), 0, -1):
            leading |= set(nodes[number - 1].sources) if number in leading else set()
        return cls(nodes, frozenset(range(1, len(nodes))) - leading)


def _cell_inputs(cell: CellGenotype, targets: set[int]) -> dict[int, str]:
    """Label nodes 0 and 1 of a DARTS cell, which are the outputs of the two cells before it."""
    return dict(_CELL_INPUTS) if cell.concat is not None and targets and min(targets) == 2 else {}


def _by_target(decisions: Iterable[Decision]) -> dict[int, tuple[Decision, ...]]:
    grouped: dict[int, list[Decision]] = {}
    for decision in decisions:
        grouped.setdefault(decision.target, []).append(decision)
    return {target: tuple(rows) for target, rows in grouped.items()}
