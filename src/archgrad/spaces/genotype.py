"""Genotypes: the choices made in each row of each decision block."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from archgrad.errors import UserError, look_up, unknown
from archgrad.parts.fields import check_fields, checked

__all__ = ["SKIP", "CellGenotype", "Decision", "Genotype"]

SKIP = "skip_connect"
"""The name of a skip connection in every space."""


@dataclass(frozen=True, order=True)
class Decision:
    """One choice: ``choice`` on the edge ``source`` → ``target``, or at node ``target`` where ``source`` is None."""

    target: int
    source: int | None
    choice: str

    def __post_init__(self) -> None:
        check_fields(self)

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
    concat: tuple[int, ...] | None = None

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
        """Read JSON, a NAS-Bench-201 string, printed DARTS cells or nodes in brackets."""
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
        """Print in a named notation: ``json``, ``nasbench201``, ``darts`` or ``nodes``."""
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
