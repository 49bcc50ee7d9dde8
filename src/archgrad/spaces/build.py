"""Build the operations on the edges or nodes of a cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from archgrad.errors import UserError, look_up
from archgrad.operations import FactorizedReduce, Identity, Operation, Site, Vocabulary
from archgrad.spaces.block import DecisionBlock, Row
from archgrad.supernet import CellMixture, Edge, SupernetOptions

__all__ = ["CellPlan", "CellViews", "build_edges", "build_nodes", "skip_connection"]

CellViews = Mapping[str, Sequence[CellMixture]]
"""Block name → the mixture of each of its cells."""


@dataclass(frozen=True)
class CellPlan:
    """The operations on the edges of each block: all of them in a supernet, the chosen ones in a plain network.

    ``options`` are those of the supernet, with the space's defaults filled in. ``auxiliary_head`` asks for a second
    head in the middle of the network.
    """

    rows: Mapping[str, tuple[Row, ...]]
    searching: bool
    concat: Mapping[str, tuple[int, ...] | None] | None = None
    options: SupernetOptions = field(default_factory=SupernetOptions)
    auxiliary_head: bool = False

    def concat_of(self, block: DecisionBlock) -> tuple[int, ...]:
        """Return the nodes a cell of this block concatenates: those of the genotype, else those of the block."""
        chosen = None if self.concat is None else self.concat[block.name]
        return chosen or block.concat or ()

    def site(self, channels: int, stride: int = 1, salt: int = 0, skeleton: bool = False) -> Site:
        """Return the site of an operation, in a cell or in the ``skeleton`` around the cells."""
        return Site(channels, stride, self.searching, salt, skeleton)


def build_edges(
    plan: CellPlan, block: str, vocabulary: Vocabulary, channels: int, strided: Sequence[int] = (),
    adds_skips: bool = False,
) -> list[Edge]:  # fmt: skip
    """Build the operations on all edges of a cell; edges that leave a ``strided`` node have stride 2.

    With ``adds_skips`` every operation adds a skip connection, one for the edge, to its output.
    """
    edges = []
    for index, row in enumerate(plan.rows[block]):
        if row.source is None:
            raise UserError(f"row {row.name} of block {block!r} is a node; this cell needs edges, so give it a source.")
        stride = 2 if row.source in strided else 1
        site = plan.site(channels // plan.options.partial, stride, salt=index)
        operations = tuple(look_up("operation", choice, vocabulary)(site) for choice in row.choices)
        skip = skip_connection(site) if plan.options.auxiliary_skip else None
        added = skip_connection(site) if adds_skips else None
        partial = plan.options.partial
        edges.append(Edge(row.source, row.target, operations, stride, partial, skip, row.choices, block, added))
    return edges


def build_nodes(plan: CellPlan, block: str, vocabulary: Vocabulary, channels: int) -> list[Edge]:
    """Build the operations at all nodes of a cell, for a MixedNodeCell."""
    site = plan.site(channels // plan.options.partial)
    edges = []
    for row in plan.rows[block]:
        operations = tuple(look_up("operation", choice, vocabulary)(site) for choice in row.choices)
        skip = skip_connection(site) if plan.options.auxiliary_skip else None
        edges.append(Edge(2 * row.target - 1, 2 * row.target, operations, 1, plan.options.partial, skip))
    return edges


def skip_connection(site: Site) -> Operation:
    """Return a skip connection: the identity, or at stride 2 a factorized reduction with its own weights."""
    return Identity() if site.stride == 1 else FactorizedReduce(site.channels, site)
