"""Checking that a genotype belongs to a space."""

from __future__ import annotations

from collections.abc import Sequence

from archgrad.errors import UserError, unknown
from archgrad.spaces.block import DecisionBlock
from archgrad.spaces.genotype import CellGenotype, Decision, Genotype

__all__ = ["check_cell", "check_genotype", "row_of"]


def check_genotype(space: str, blocks: Sequence[DecisionBlock], genotype: Genotype) -> None:
    """Raise a UserError unless the genotype fits these blocks of the space named ``space``."""
    expected = tuple(block.name for block in blocks)
    if set(genotype.names) != set(expected):
        raise UserError(
            f"this genotype has the blocks {', '.join(genotype.names) or 'none'}, but the space {space!r} has "
            f"{', '.join(expected)}; choose the space it belongs to."
        )
    for block in blocks:
        check_cell(space, block, genotype[block.name])


def row_of(block: DecisionBlock, decision: Decision) -> int:
    """Return the index of a decision's row."""
    for index, row in enumerate(block.rows):
        if (row.target, row.source) == (decision.target, decision.source):
            return index
    names = [row.name for row in block.rows]
    raise unknown(
        f"edge or node in {decision} of block {block.name!r}:",
        decision.row,
        names,
    )


def check_cell(space: str, block: DecisionBlock, cell: CellGenotype) -> None:
    """Raise a UserError unless the decisions fit this block of the space named ``space``."""
    used: list[tuple[int, str]] = []
    for decision in cell:
        row = row_of(block, decision)
        allowed = [choice for choice in block.rows[row].choices if choice not in block.excluded]
        if decision.choice not in allowed:
            place = f"operation on {block.rows[row].name} of block {block.name!r} in the space {space!r}:"
            raise unknown(place, decision.choice, allowed)
        if (row, decision.choice) in used or sum(row == other for other, _ in used) == block.rows[row].picks:
            times = "twice" if block.rows[row].picks == 1 else f"more than {block.rows[row].picks} times, or one twice"
            raise UserError(f"block {block.name!r} decides {block.rows[row].name} {times}; remove the extra decisions.")
        used.append((row, decision.choice))
    for target in block.targets:
        rows = [index for index, row in enumerate(block.rows) if row.target == target]
        kept = [row for row in rows if any(row == other for other, _ in used)]
        count = len(rows) if block.keep is None else min(block.keep, len(rows))
        wanted = sum(block.rows[row].picks for row in (kept if len(kept) == count else rows[:count]))
        found = sum(row in rows for row, _ in used)
        if found != wanted and not block.on_edges:
            raise UserError(
                f"block {block.name!r} of this genotype has {found} decisions at node {target}, but the space "
                f"{space!r} has {wanted}; choose the space that the genotype belongs to."
            )
        if found != wanted:
            raise UserError(
                f"node {target} of block {block.name!r} has {found} inputs in this genotype, but {wanted} in the space "
                f"{space!r}; choose the space that the genotype belongs to."
            )
    _check_concat(space, block, cell.concat)


def _check_concat(space: str, block: DecisionBlock, concat: tuple[int, ...] | None) -> None:
    if concat is None:
        return
    if block.concat is None:
        raise UserError(
            f"block {block.name!r} concatenates {list(concat)} in this genotype, but in the space {space!r} the "
            f"output of a cell is its last node; leave the concatenation out."
        )
    if not concat or not set(concat) <= set(block.targets):
        nodes = ", ".join(map(str, block.targets))
        raise UserError(
            f"block {block.name!r} concatenates {list(concat)} in this genotype; choose from the nodes {nodes} that "
            f"its cells compute."
        )
