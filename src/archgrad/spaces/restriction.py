"""Exclusions and restrictions: which of its choices each row of a block keeps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from archgrad.errors import UserError, unknown
from archgrad.parts.fields import check_value
from archgrad.spaces.block import DecisionBlock, Row

__all__ = ["Restriction", "check_exclude", "exclude_choices", "make_restriction", "restrict_block"]

Restriction = tuple[tuple[str, tuple[tuple[str, ...], ...]], ...]
"""Block names, each with the remaining choices of its rows."""


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
