"""Building the cells of a network: which operations stand on which edges or nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from archgrad.errors import UserError, unknown
from archgrad.operations import FactorizedReduce, Factory, Identity, Operation, Site, Vocabulary
from archgrad.spaces.block import DecisionBlock, Row
from archgrad.supernet import CellMixture, Edge, SupernetOptions

__all__ = ["CellPlan", "CellViews", "build_edges", "build_nodes", "skip_connection"]

CellViews = Mapping[str, Sequence[CellMixture]]
"""Block name → what each of its cells sees of a mixture."""


@dataclass(frozen=True)
class CellPlan:
    """Which operations stand on which edges of each block: all of them in a supernet, the chosen ones otherwise.

    ``options`` are those of the supernet, completed by the space's defaults.
    """

    rows: Mapping[str, tuple[Row, ...]]
    searching: bool
    concat: Mapping[str, tuple[int, ...] | None] | None = None
    options: SupernetOptions = field(default_factory=SupernetOptions)

    def concat_of(self, block: DecisionBlock) -> tuple[int, ...] | None:
        """Return the nodes a cell of this block concatenates."""
        chosen = None if self.concat is None else self.concat[block.name]
        return chosen or block.concat

    def site(self, channels: int, stride: int = 1, salt: int = 0, skeleton: bool = False) -> Site:
        """Return a place of this plan for an operation, in a cell or in the ``skeleton`` around the cells."""
        return Site(channels, stride, self.searching, salt, skeleton)


def build_edges(
    plan: CellPlan, block: str, vocabulary: Vocabulary, channels: int, strided: Sequence[int] = ()
) -> list[Edge]:
    """Build the operations on all edges of a cell of this many channels; those that leave a ``strided`` node halve."""
    edges = []
    for index, row in enumerate(plan.rows[block]):
        if row.source is None:
            raise UserError(f"row {row.name} of block {block!r} is a node; this cell has operations on edges only.")
        stride = 2 if row.source in strided else 1
        factories = [_factory(vocabulary, choice) for choice in row.choices]
        site = plan.site(channels // plan.options.partial, stride, salt=index)
        operations = tuple(factory(site) for factory in factories)
        skip = skip_connection(site) if plan.options.auxiliary_skip else None
        edges.append(Edge(row.source, row.target, operations, stride, plan.options.partial, skip))
    return edges


def build_nodes(plan: CellPlan, block: str, vocabulary: Vocabulary, channels: int) -> list[Edge]:
    """Build the operations at all nodes of a cell of this many channels, as a MixedNodeCell takes them."""
    site = plan.site(channels // plan.options.partial)
    edges = []
    for row in plan.rows[block]:
        operations = tuple(_factory(vocabulary, choice)(site) for choice in row.choices)
        skip = skip_connection(site) if plan.options.auxiliary_skip else None
        edges.append(Edge(2 * row.target - 1, 2 * row.target, operations, 1, plan.options.partial, skip))
    return edges


def skip_connection(site: Site) -> Operation:
    """Return a skip connection: the identity, or at stride 2 a reduction with weights of its own."""
    return Identity() if site.stride == 1 else FactorizedReduce(site.channels, site)


def _factory(vocabulary: Vocabulary, choice: str) -> Factory:
    if choice not in vocabulary:
        raise unknown("operation", choice, vocabulary)
    return vocabulary[choice]
