"""Decision blocks: rows of choices, each block with one tensor of architecture parameters; fewer choices."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor

from archgrad.errors import UserError, unknown
from archgrad.parts.fields import Count, check_fields, check_value, checked

__all__ = [
    "DecisionBlock",
    "Restriction",
    "Row",
    "check_exclude",
    "edge_rows",
    "exclude_choices",
    "make_restriction",
    "restrict_block",
]

Restriction = tuple[tuple[str, tuple[tuple[str, ...], ...]], ...]
"""Block names, each with the remaining choices of its rows."""


@dataclass(frozen=True)
class Row:
    """One decision: an edge (``source`` → ``target``), or a node where ``source`` is None, and its choices.

    A genotype picks ``picks`` of the choices: one operation on an edge, for example, or two inputs of a node.
    """

    target: int
    source: int | None
    choices: tuple[str, ...]
    picks: int = 1

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def name(self) -> str:
        """``2<-0`` for an edge, ``2`` for a node."""
        return str(self.target) if self.source is None else f"{self.target}<-{self.source}"


@dataclass(frozen=True)
class DecisionBlock:
    """Rows of choices shared by ``cells`` cells: architecture parameters ``[rows, choices]``.

    Rows may offer different choices; the tensor is as wide as the longest row, and :attr:`mask` marks the real entries.
    ``keep`` is the number of rows that discretization keeps at each target node (None: all). A genotype never contains
    the ``excluded`` choices.

    In a block of the ``kind`` "operation" the choices are operations. In a block of the kind "edge" they are the edges
    into a node: one row per node, whose choices are the names of the nodes it may read.
    """

    name: str
    cells: Count
    rows: tuple[Row, ...]
    keep: Count | None = None
    excluded: frozenset[str] = frozenset()
    concat: tuple[int, ...] | None = None
    kind: Literal["operation", "edge"] = "operation"

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.rows or any(not row.choices for row in self.rows):
            raise UserError(f"block {self.name!r} needs at least one row, and each row at least one choice.")
        for row in self.rows:
            if len(set(row.choices)) != len(row.choices):
                raise UserError(f"row {row.name} of block {self.name!r} offers a choice twice: {row.choices}.")
            allowed = set(row.choices) - self.excluded
            if not 1 <= row.picks <= max(len(allowed), 1):
                raise UserError(
                    f"row {row.name} of block {self.name!r} picks {row.picks} of {len(allowed)} choices; "
                    f"picks must be from 1 to {len(allowed)}."
                )
            if not allowed:
                raise UserError(f"row {row.name} of block {self.name!r} offers only excluded choices: {row.choices}.")

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and choices (of the longest row)."""
        return len(self.rows), max(len(row.choices) for row in self.rows)

    @cached_property
    def mask(self) -> Tensor:
        """Bool ``[rows, choices]``: True where the row has that choice."""
        width = self.shape[1]
        return torch.tensor([[index < len(row.choices) for index in range(width)] for row in self.rows])

    def mask_on(self, device: torch.device) -> Tensor:
        """Return :attr:`mask` on a device, copied there once."""
        if device.type == "cpu":
            return self.mask
        copies: dict[torch.device, Tensor] = self.__dict__.setdefault("_masks", {})
        if device not in copies:
            copies[device] = self.mask.to(device)
        return copies[device]

    @cached_property
    def targets(self) -> tuple[int, ...]:
        """The nodes that rows lead to, in order and once each."""
        return tuple(dict.fromkeys(row.target for row in self.rows))

    def rows_into(self, target: int) -> list[int]:
        """Return the numbers of the rows that lead to a node."""
        return [index for index, row in enumerate(self.rows) if row.target == target]

    def allowed(self, row: int) -> list[int]:
        """Return the numbers of the choices of a row that a genotype may have: all but the excluded ones."""
        return [place for place, choice in enumerate(self.rows[row].choices) if choice not in self.excluded]

    @property
    def on_edges(self) -> bool:
        """Whether its rows decide edges rather than nodes."""
        return all(row.source is not None for row in self.rows)

    @cached_property
    def edges(self) -> DecisionBlock:
        """The block ``name.edges`` of this block's edge weights: a row per target, whose choices are its sources.

        >>> DecisionBlock("cell", 1, edge_rows([(1, [0]), (2, [0, 1])], ("skip",))).edges.rows[1]
        Row(target=2, source=None, choices=('0', '1'), picks=2)
        """
        if not self.on_edges:
            raise UserError(f"block {self.name!r} has operations on nodes; edge weights need operations on edges.")
        rows = []
        for target in self.targets:
            sources = tuple(str(self.rows[row].source) for row in self.rows_into(target))
            picks = len(sources) if self.keep is None else min(self.keep, len(sources))
            rows.append(Row(target, None, sources, picks))
        return DecisionBlock(f"{self.name}.edges", self.cells, tuple(rows), kind="edge")

    def has_edge_weights(self, weights: Container[str]) -> bool:
        """Tell whether ``weights``, keyed by block name, contain this block's edge weights."""
        return self.on_edges and self.edges.name in weights

    @cached_property
    def edge_places(self) -> tuple[tuple[int, int], ...]:
        """For each row, the (row, choice) of its weight in :attr:`edges`."""
        places = []
        for index, row in enumerate(self.rows):
            before = sum(other.target == row.target for other in self.rows[:index])
            places.append((self.targets.index(row.target), before))
        return tuple(places)


@checked
def edge_rows(nodes: Iterable[tuple[int, Iterable[int]]], choices: tuple[str, ...]) -> tuple[Row, ...]:
    """Return a row for each edge; ``nodes`` lists targets with their sources, and all rows share ``choices``."""
    try:
        return tuple(Row(target, source, choices) for target, sources in nodes for source in sources)
    except (TypeError, ValueError) as error:
        raise UserError(f"nodes must be pairs of a target and its sources, such as (2, [0, 1]) ({error}).") from None


def check_exclude(space: str, blocks: Sequence[DecisionBlock], exclude: Sequence[str]) -> None:
    """Reject operations that the blocks of a space do not offer, and rows that would be left without any."""
    rows = [(block, row) for block in blocks if block.kind == "operation" for row in block.rows]
    offered = list(dict.fromkeys(choice for _, row in rows for choice in row.choices))
    for operation in exclude:
        if operation not in offered:
            raise unknown("operation in exclude:", operation, offered)
    for block, row in rows:
        if not set(row.choices) - block.excluded - set(exclude):
            raise UserError(
                f"exclude removes every operation of the space {space!r} on row {row.name} of block {block.name!r}; "
                f"leave at least one of {', '.join(choice for choice in row.choices if choice not in block.excluded)}."
            )


def exclude_choices(block: DecisionBlock, exclude: Sequence[str]) -> DecisionBlock:
    """Return the block without some operations; a block that decides edges stays as it is.

    >>> block = DecisionBlock("cell", 1, (Row(1, 0, ("none", "skip", "conv")),))
    >>> exclude_choices(block, ("none",)).rows[0].choices
    ('skip', 'conv')
    """
    if block.kind == "edge" or not exclude:
        return block
    rows = (replace(row, choices=tuple(one for one in row.choices if one not in exclude)) for row in block.rows)
    return replace(block, rows=tuple(rows))


def restrict_block(block: DecisionBlock, restriction: Restriction | None) -> DecisionBlock:
    """Return the block with only the choices that the restriction leaves, in the block's own order.

    >>> block = DecisionBlock("cell", 1, (Row(1, 0, ("none", "skip", "conv")),))
    >>> restrict_block(block, (("cell", (("conv", "none"),)),)).rows[0].choices
    ('none', 'conv')
    """
    wanted = dict(restriction or ()).get(block.name)
    if wanted is None:
        return block
    if len(wanted) != len(block.rows):
        raise UserError(
            f"the restriction of block {block.name!r} is for {len(wanted)} rows, but the block has {len(block.rows)}; "
            f"give the choices of every row: {', '.join(row.name for row in block.rows)}."
        )
    return replace(
        block, rows=tuple(_restrict_row(block, row, names) for row, names in zip(block.rows, wanted, strict=True))
    )


def make_restriction(
    space: str, blocks: Sequence[DecisionBlock], wanted: Mapping[str, Sequence[Iterable[str]]]
) -> Restriction:
    """Return the restriction of all blocks to the ``wanted`` choices; reject unknown blocks and choices."""
    for name, rows in wanted.items():
        check_value(f"choices of block {name!r}", rows, Sequence[Iterable[str]])
        if name not in [block.name for block in blocks]:
            raise unknown(f"block of the space {space!r}:", name, [block.name for block in blocks])
    given = tuple((name, tuple(_names(name, row) for row in rows)) for name, rows in wanted.items())
    return tuple((block.name, tuple(row.choices for row in restrict_block(block, given).rows)) for block in blocks)


def _names(block: str, choices: Iterable[str]) -> tuple[str, ...]:
    if isinstance(choices, str):
        raise UserError(
            f"the restriction of block {block!r} has the text {choices!r} on a row; give a list, such as [{choices!r}]."
        )
    check_value(f"the choices of a row of block {block!r}", tuple(choices), tuple[str, ...])
    return tuple(choices)


def _restrict_row(block: DecisionBlock, row: Row, names: tuple[str, ...]) -> Row:
    for name in names:
        if name not in row.choices:
            raise unknown(f"choice on row {row.name} of block {block.name!r}:", name, row.choices)
    if not names:
        raise UserError(
            f"the restriction leaves no choice on row {row.name} of block {block.name!r}; leave at least one of "
            f"{', '.join(row.choices)}."
        )
    if len(set(names) - block.excluded) < row.picks and row.picks > 1:
        raise UserError(
            f"the restriction leaves {', '.join(names)} on row {row.name} of block {block.name!r}, but a genotype "
            f"picks {row.picks}; leave at least {row.picks} of {', '.join(row.choices)}."
        )
    return replace(row, choices=tuple(choice for choice in row.choices if choice in names))
