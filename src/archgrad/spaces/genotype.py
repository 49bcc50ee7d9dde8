"""Genotypes: the choices made in each row of each decision block."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from archgrad.errors import UserError, look_up, shortened, unknown
from archgrad.parts.fields import Range, check_fields, checked
from archgrad.spaces.block import DecisionBlock

__all__ = ["MOST_NODES", "SKIP", "CellGenotype", "Decision", "Genotype", "check_cell", "check_genotype", "row_of"]

SKIP = "skip_connect"
"""The name of a skip connection in every space."""
MOST_NODES = 10_000
Node = Annotated[int, Range(0, MOST_NODES - 1)]
"""The number of a node in a cell."""


@dataclass(frozen=True, order=True)
class Decision:
    """One choice: ``choice`` on the edge ``source`` → ``target``, or at node ``target`` where ``source`` is None."""

    target: Node
    source: Node | None
    choice: str

    def __post_init__(self) -> None:
        check_fields(self)
        _check_name("choice of Decision", self.choice)

    @property
    def row(self) -> str:
        """The name of its row: ``2<-0`` for an edge, ``2`` for a node."""
        return str(self.target) if self.source is None else f"{self.target}<-{self.source}"

    def __str__(self) -> str:
        return f"{self.choice}@{self.row}"


@dataclass(frozen=True)
class CellGenotype:
    """The decisions of one block, and the nodes whose concatenation is the cell's output (None: the last node)."""

    decisions: tuple[Decision, ...]
    concat: tuple[Node, ...] | None = None

    def __post_init__(self) -> None:
        check_fields(self)

    def __iter__(self) -> Iterator[Decision]:
        return iter(self.decisions)

    def inputs_of(self, target: int) -> tuple[Decision, ...]:
        """Return the decisions that enter the node ``target``, in their order."""
        return tuple(decision for decision in self.decisions if decision.target == target)

    @checked
    def count(self, choice: str) -> int:
        """Count the decisions for this choice."""
        return sum(decision.choice == choice for decision in self.decisions)


@dataclass(frozen=True)
class Genotype:
    """A discrete architecture: one :class:`CellGenotype` per decision block.

    It prints in the usual notation of its space and parses from any notation (no ``eval`` anywhere):

    >>> genotype = Genotype.parse("|nor_conv_3x3~0|+|none~0|skip_connect~1|+|none~0|none~1|nor_conv_1x1~2|")
    >>> genotype["cell"].count("none")
    3
    >>> Genotype.parse(genotype.to_json()) == genotype == Genotype.parse(str(genotype))
    True
    """

    blocks: tuple[tuple[str, CellGenotype], ...] = field(default=())

    def __post_init__(self) -> None:
        check_fields(self)
        for name in self.names:
            _check_name("name of a block", name)
        if len(set(self.names)) != len(self.blocks):
            raise UserError(f"the blocks of this genotype are {', '.join(self.names)}; give each another name.")

    @classmethod
    @checked
    def of(cls, blocks: Mapping[str, CellGenotype]) -> Genotype:
        """Build a genotype from a mapping of block names."""
        return cls(tuple(blocks.items()))

    @classmethod
    @checked
    def parse(cls, text: str) -> Genotype:
        """Read JSON, a NAS-Bench-201 string, printed DARTS cells, nodes in brackets or a chain."""
        from archgrad.spaces import notation

        return notation.parse(text)

    @checked
    def __getitem__(self, block: str) -> CellGenotype:
        for name, cell in self.blocks:
            if name == block:
                return cell
        raise unknown("block", block, self.names)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the decision blocks, in order."""
        return tuple(name for name, _ in self.blocks)

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """All decisions of all blocks."""
        return tuple(decision for _, cell in self.blocks for decision in cell)

    @checked
    def count(self, choices: str | Iterable[str]) -> int:
        """Count the decisions for any of these choices, in all blocks."""
        wanted = {choices} if isinstance(choices, str) else set(choices)
        return sum(decision.choice in wanted for decision in self.decisions)

    def to_json(self) -> str:
        """Return the JSON form, which every genotype has."""
        from archgrad.spaces import notation

        return notation.to_json(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the content of :meth:`to_json` as plain objects."""
        from archgrad.spaces import notation

        return notation.to_dict(self)

    @checked
    def format(self, name: str) -> str:
        """Print in a named notation: ``json``, ``nasbench201``, ``darts``, ``nodes`` or ``chain``."""
        from archgrad.spaces import notation

        text = look_up("notation", name, notation.WRITERS)(self)
        if text is None:
            blocks = ", ".join(self.names) or "(none)"
            raise UserError(
                f"this genotype cannot be printed in the notation {name!r}: its blocks are {blocks}. "
                f"Use 'json', which holds every genotype."
            )
        return text

    def __str__(self) -> str:
        from archgrad.spaces import notation

        return notation.write(self)

    def __repr__(self) -> str:
        return f"Genotype.parse({str(self)!r})"


def _check_name(what: str, name: str) -> None:
    if not name or not name.isprintable():
        raise UserError(f"{what} is {shortened(name)}; write at least one letter, all printable.")


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
    place = f"edge or node in {decision} of block {block.name!r}:"
    raise unknown(place, decision.row, [row.name for row in block.rows])


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
        rows = block.rows_into(target)
        kept = [row for row in rows if any(row == other for other, _ in used)]
        count = len(rows) if block.keep is None else min(block.keep, len(rows))
        wanted = sum(block.rows[row].picks for row in (kept if len(kept) == count else rows[:count]))
        found = sum(row in rows for row, _ in used)
        if found != wanted:
            what = "inputs" if block.on_edges else "decisions"
            raise UserError(
                f"node {target} of block {block.name!r} has {found} {what} in this genotype, but {wanted} in the space "
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
