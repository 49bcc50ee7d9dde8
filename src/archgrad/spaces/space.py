"""The search space: an immutable description that builds a supernet and, from a genotype, a plain network."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import ClassVar

import torch
from torch import Tensor, nn

from archgrad.errors import UserError, unknown
from archgrad.operations import Factory, Site, Vocabulary
from archgrad.spaces.block import DecisionBlock, Row
from archgrad.spaces.cost import Cost, cost
from archgrad.spaces.genotype import CellGenotype, Decision, Genotype
from archgrad.supernet import CellMixture, Edge, Supernet, check_drop_path
from archgrad.training import WeightTraining

__all__ = ["CellPlan", "CellViews", "SearchSpace", "Selection", "build_edges"]

Selection = Mapping[str, Sequence[tuple[int, int]]]
"""Block name → the chosen (row, choice) pairs."""


@dataclass(frozen=True, kw_only=True)
class SearchSpace(ABC):
    """A set of decision blocks, and how to build networks from them.

    ``input_channels``, ``image_size`` and ``num_classes`` describe the data the networks are for; a search overrides
    the first and the last with what it finds in its data. ``drop_path`` is a setting of the search and of nothing else:
    the probability, at its end, with which an operation of the supernet is dropped for an image.
    """

    name: ClassVar[str]
    depth_knob: ClassVar[str]

    channels: int = 16
    input_channels: int = 3
    image_size: int = 32
    num_classes: int = 10
    drop_path: float = 0.0

    def __post_init__(self) -> None:
        for knob in fields(self):
            value = getattr(self, knob.name)
            if knob.type in ("int", int) and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                fix = "it must be at least 1 and a whole number"
                raise UserError(f"{knob.name} of the space {self.name!r} is {value!r}; {fix}.")
        check_drop_path(self.drop_path, f" of the space {self.name!r}")

    @property
    def auxiliary(self) -> float:
        """The weight of the loss of the supernet's auxiliary head; 0 where it has none."""
        return 0.0

    @property
    @abstractmethod
    def blocks(self) -> tuple[DecisionBlock, ...]:
        """The decision blocks, in order."""

    @property
    @abstractmethod
    def training(self) -> WeightTraining:
        """The published settings for training the supernet's weights."""

    @abstractmethod
    def build(self, plan: CellPlan, input_channels: int, num_classes: int) -> nn.Module:
        """Build the whole network around cells whose edges come from ``plan``.

        Its forward takes ``(x, mixture)`` in a supernet, where mixture maps blocks to lists of
        :class:`~archgrad.supernet.CellMixture`, and ``(x)`` in a plain network.
        """

    def supernet(self, num_classes: int | None = None, input_channels: int | None = None) -> Supernet:
        """Build the continuous network ``supernet(x, mixture) -> logits``."""
        plan = CellPlan({block.name: block.rows for block in self.blocks}, searching=True)
        body = self._build(plan, num_classes, input_channels)
        return Supernet(body, {block.name: (block.cells, *block.shape) for block in self.blocks})

    def network(
        self, genotype: Genotype, num_classes: int | None = None, input_channels: int | None = None
    ) -> nn.Module:
        """Build the plain network ``x -> logits`` of a genotype, with its own batch norm statistics.

        Settings of the search, drop-path and the auxiliary head, are no part of it.
        """
        self.check(genotype)
        rows = {name: tuple(_as_row(decision) for decision in cell) for name, cell in genotype.blocks}
        concat = {name: cell.concat for name, cell in genotype.blocks}
        plan = CellPlan(rows, searching=False, concat=concat)
        return self._build(plan, num_classes, input_channels)

    def _build(self, plan: CellPlan, num_classes: int | None, input_channels: int | None) -> nn.Module:
        """Build for these sizes, checked like the space's own, which stand in for None."""
        given = {"num_classes": num_classes, "input_channels": input_channels}
        sized = replace(self, **{name: size for name, size in given.items() if size is not None})
        return sized.build(plan, sized.input_channels, sized.num_classes)

    def cost(self, genotype: Genotype) -> Cost:
        """Measure the plain network of a genotype at this space's sizes, on one image of ``image_size``."""
        return cost(self.network(genotype), self.input_channels, self.image_size)

    def block(self, name: str) -> DecisionBlock:
        """Return a block by its name."""
        for block in self.blocks:
            if block.name == name:
                return block
        raise unknown(f"block of the space {self.name!r}:", name, [block.name for block in self.blocks])

    def genotype(self, selection: Selection) -> Genotype:
        """Turn chosen (row, choice) indices into a genotype."""
        cells = {}
        for block in self.blocks:
            rows = [(block.rows[row], choice) for row, choice in selection[block.name]]
            decisions = tuple(Decision(row.target, row.source, row.choices[choice]) for row, choice in rows)
            cells[block.name] = CellGenotype(decisions, block.concat)
        return Genotype.of(cells)

    def one_hot(self, genotype: Genotype) -> dict[str, Tensor]:
        """Return the mixture ``{block: [cells, rows, choices]}`` with ones at the genotype's choices."""
        self.check(genotype)
        mixture = {}
        for block in self.blocks:
            weights = torch.zeros(block.shape)
            for decision in genotype[block.name]:
                row = _row_of(block, decision)
                weights[row, block.rows[row].choices.index(decision.choice)] = 1.0
            mixture[block.name] = weights.expand(block.cells, -1, -1)
        return mixture

    def check(self, genotype: Genotype) -> None:
        """Raise a :class:`~archgrad.errors.UserError` if the genotype is not of this space."""
        expected = tuple(block.name for block in self.blocks)
        if set(genotype.names) != set(expected):
            raise UserError(
                f"this genotype has the blocks {', '.join(genotype.names) or 'none'}, but the space {self.name!r} has "
                f"{', '.join(expected)}; choose the space it belongs to."
            )
        for block in self.blocks:
            _check_cell(self.name, block, genotype[block.name])


@dataclass(frozen=True)
class CellPlan:
    """Which operations stand on which edges of each block: all of them in a supernet, the chosen ones otherwise."""

    rows: Mapping[str, tuple[Row, ...]]
    searching: bool
    concat: Mapping[str, tuple[int, ...] | None] | None = None

    def concat_of(self, block: DecisionBlock) -> tuple[int, ...] | None:
        """Return the nodes a cell of this block concatenates."""
        chosen = None if self.concat is None else self.concat[block.name]
        return chosen or block.concat

    def site(self, channels: int, stride: int = 1, salt: int = 0) -> Site:
        """Return a place of this plan for an operation."""
        return Site(channels, stride, self.searching, salt)


def build_edges(
    plan: CellPlan, block: str, vocabulary: Vocabulary, channels: int, strided: Sequence[int] = ()
) -> list[Edge]:
    """Build the operations on all edges of one cell; edges that leave a ``strided`` node have stride 2."""
    edges = []
    for index, row in enumerate(plan.rows[block]):
        if row.source is None:
            raise UserError(f"row {row.name} of block {block!r} is a node; this cell has operations on edges only.")
        stride = 2 if row.source in strided else 1
        factories = [_factory(vocabulary, choice) for choice in row.choices]
        operations = tuple(factory(plan.site(channels, stride, salt=index)) for factory in factories)
        edges.append(Edge(row.source, row.target, operations, stride))
    return edges


CellViews = Mapping[str, Sequence[CellMixture]]


def _factory(vocabulary: Vocabulary, choice: str) -> Factory:
    if choice not in vocabulary:
        raise unknown("operation", choice, vocabulary)
    return vocabulary[choice]


def _as_row(decision: Decision) -> Row:
    return Row(decision.target, decision.source, (decision.choice,))


def _row_of(block: DecisionBlock, decision: Decision) -> int:
    for index, row in enumerate(block.rows):
        if (row.target, row.source) == (decision.target, decision.source):
            return index
    names = [row.name for row in block.rows]
    raise unknown(f"edge or node in {decision} of block {block.name!r}:", _as_row(decision).name, names)


def _check_cell(space: str, block: DecisionBlock, cell: CellGenotype) -> None:
    used: list[tuple[int, str]] = []
    for decision in cell:
        row = _row_of(block, decision)
        allowed = [choice for choice in block.rows[row].choices if choice not in block.excluded]
        if decision.choice not in allowed:
            place = f"operation on {block.rows[row].name} of block {block.name!r} in the space {space!r}:"
            raise unknown(place, decision.choice, allowed)
        if (row, decision.choice) in used or sum(row == other for other, _ in used) == block.rows[row].picks:
            times = "twice" if block.rows[row].picks == 1 else f"more than {block.rows[row].picks} times, or one twice"
            raise UserError(f"block {block.name!r} decides {block.rows[row].name} {times}; remove what is too much.")
        used.append((row, decision.choice))
    for target in block.targets:
        rows = [index for index, row in enumerate(block.rows) if row.target == target]
        kept = [row for row in rows if any(row == other for other, _ in used)]
        count = len(rows) if block.keep is None else min(block.keep, len(rows))
        wanted = sum(block.rows[row].picks for row in (kept if len(kept) == count else rows[:count]))
        found = sum(row in rows for row, _ in used)
        if found != wanted:
            raise UserError(
                f"node {target} of block {block.name!r} has {found} inputs in this genotype; "
                f"the space {space!r} gives it {wanted}."
            )
    _check_concat(space, block, cell.concat)


def _check_concat(space: str, block: DecisionBlock, concat: tuple[int, ...] | None) -> None:
    if concat is None:
        return
    if block.concat is None:
        raise UserError(
            f"block {block.name!r} concatenates {list(concat)} in this genotype; in the space {space!r} a cell's "
            f"output is its last node, so leave that out."
        )
    if not concat or not set(concat) <= set(block.targets):
        nodes = ", ".join(map(str, block.targets))
        raise UserError(
            f"block {block.name!r} concatenates {list(concat)} in this genotype; choose from the nodes {nodes} that "
            f"its cells compute."
        )
