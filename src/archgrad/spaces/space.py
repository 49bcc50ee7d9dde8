"""The search space: an immutable description that builds a supernet and, from a genotype, a plain network."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, TypeVar

import torch
from torch import nn

from archgrad.autodiff.tensors import Mixture
from archgrad.errors import UserError, unknown
from archgrad.parts.fields import Range, check_fields, check_value, checked
from archgrad.spaces.block import (
    DecisionBlock,
    Restriction,
    Row,
    check_exclude,
    exclude_choices,
    make_restriction,
    restrict_block,
)
from archgrad.spaces.build import CellPlan
from archgrad.spaces.cost import Cost, ImageSize, cost
from archgrad.spaces.genotype import SKIP, CellGenotype, Decision, Genotype, check_genotype, row_of
from archgrad.supernet import PLAIN, EdgeWeights, MixedCell, Modifier, Supernet, SupernetOptions
from archgrad.training.weight_training import WeightTraining

__all__ = ["ChosenPairs", "Depth", "SearchSpace", "Width"]

ChosenPairs = Mapping[str, Sequence[tuple[int, int]]]
"""Block name → the chosen (row, choice) pairs."""

Width = Annotated[int, Range(1, 10_000)]
"""A number of channels."""
Depth = Annotated[int, Range(1, 1000)]
"""A number of cells."""

Space = TypeVar("Space", bound="SearchSpace")


@dataclass(frozen=True, kw_only=True)
class SearchSpace(ABC):
    """A set of decision blocks, and how to build networks from them.

    ``exclude`` removes operations everywhere. ``restriction`` holds the choices that :meth:`restricted` left; None
    means all.
    """

    name: ClassVar[str]
    depth_knob: ClassVar[str]
    family: ClassVar[str] = "own"
    """The published space whose method settings apply; "own" for any other."""
    compared_at: ClassVar[Mapping[str, int]] = {}
    """The width and depth at which its architectures are compared in the literature, by field; empty where unknown."""
    not_searched: ClassVar[str] = ""
    """Why it has no supernet, in words that follow its name; empty if it has one."""
    has_own_depth: ClassVar[bool] = False
    """Whether each layer is decided separately, so that a genotype fits networks of one depth only."""
    has_auxiliary_head: ClassVar[bool] = False
    """Whether its supernet can have an auxiliary head."""

    channels: Width = 16
    exclude: tuple[str, ...] = ()
    restriction: Restriction | None = field(default=None, metadata={"knob": False})

    def __post_init__(self) -> None:
        if isinstance(self.exclude, list):
            object.__setattr__(self, "exclude", tuple(self.exclude))
        check_fields(self, f"{{}} of the space {self.name!r}")
        self._check_exclude()
        self._check_restriction()

    def _check_exclude(self) -> None:
        """Reject exclusions of unknown operations or of all, or such that the space ignores."""
        if not self.exclude:
            return
        check_exclude(self.name, replace(self, exclude=(), restriction=None).blocks, self.exclude)
        if self.offers(*self.exclude):
            raise UserError(
                f"the space {self.name!r} ignores exclude; pass each of its blocks through self.apply_restriction() "
                f"in blocks, or exclude nothing."
            )

    def _check_restriction(self) -> None:
        """Reject a restriction with unknown choices, or one that the space ignores."""
        if self.restriction is None:
            return
        kept = make_restriction(self.name, replace(self, restriction=None).blocks, dict(self.restriction))
        if tuple((block.name, tuple(row.choices for row in block.rows)) for block in self.blocks) != kept:
            raise UserError(
                f"the space {self.name!r} ignores its restriction; pass each of its blocks through "
                f"self.apply_restriction() in blocks, or leave it unrestricted."
            )

    @checked
    def restricted(self: Space, choices: Mapping[str, Sequence[Iterable[str]]]) -> Space:
        """Return this space with only these choices on each row of the named blocks.

        Every row keeps at least one choice, in the space's own order. A genotype of the restricted space is also one of
        this space.
        """
        return replace(self, restriction=make_restriction(self.name, self.blocks, choices))

    def apply_restriction(self, block: DecisionBlock) -> DecisionBlock:
        """Return a block with the choices that ``exclude`` and the restriction leave; :attr:`blocks` must use it."""
        return restrict_block(exclude_choices(block, self.exclude), self.restriction)

    @property
    @abstractmethod
    def blocks(self) -> tuple[DecisionBlock, ...]:
        """The decision blocks, in order, each as :meth:`apply_restriction` returns it."""

    @checked
    def searched_blocks(self, options: SupernetOptions | None = None) -> tuple[DecisionBlock, ...]:
        """Return all blocks with architecture parameters: :attr:`blocks` and, with edge weights, their edge blocks.

        A mixture has all of them; a genotype has only :attr:`blocks`.
        """
        return (*self.blocks, *(block.edges for block in self._edge_weighted_blocks(options)))

    def _edge_weighted_blocks(self, options: SupernetOptions | None) -> tuple[DecisionBlock, ...]:
        """Return the blocks with edge weights: those with operations on edges, if the options ask for edge weights.

        With operations on nodes, a separate block decides the inputs of a node.
        """
        return tuple(block for block in self.blocks if block.on_edges) if options and options.edge_weights else ()

    @property
    @abstractmethod
    def weights(self) -> WeightTraining:
        """The published settings for training the supernet's weights."""

    @property
    def supernet_defaults(self) -> SupernetOptions:
        """The published options of the supernet, used where a method sets none."""
        return SupernetOptions()

    @property
    def modifiers(self) -> tuple[Modifier, ...]:
        """What its supernets need in every forward pass, besides what options and methods bring."""
        return ()

    @property
    def about(self) -> str:
        """What the space is, in a line."""
        return str(type(self).__doc__ or "").strip().splitlines()[0]

    @checked
    def completed_options(self, options: SupernetOptions | None = None) -> SupernetOptions:
        """Return the options with None replaced by the space's defaults; reject those its supernet cannot have."""
        options = (options or SupernetOptions()).completed(self.supernet_defaults).completed(PLAIN)
        if self.channels % options.partial:
            divisors = ", ".join(str(k) for k in range(1, self.channels + 1) if self.channels % k == 0)
            raise UserError(
                f"supernet.partial is {options.partial}, which does not divide the {self.channels} channels of the "
                f"space {self.name!r}; choose from {divisors}, or another number of channels."
            )
        if options.skip_dropout and not self.offers(SKIP):
            raise UserError(
                f"supernet.skip_dropout is {options.skip_dropout}, but no choice of the space {self.name!r} is a skip "
                f"connection, so it would do nothing; leave it out."
            )
        if options.auxiliary_head and not self.has_auxiliary_head:
            raise UserError(
                f"supernet.auxiliary_head is {options.auxiliary_head}, but supernets of the space {self.name!r} have "
                f"no auxiliary head; leave it out."
            )
        return options

    @abstractmethod
    def build(self, plan: CellPlan, input_channels: int, num_classes: int) -> nn.Module:
        """Build the whole network; the operations of its cells come from ``plan``.

        Its forward takes ``(x, mixture)`` in a supernet, where mixture maps blocks to lists of
        :class:`~archgrad.supernet.CellMixture`, and ``(x)`` in a plain network.
        """

    @checked
    def supernet(
        self, options: SupernetOptions | None = None, *, num_classes: Width = 10, input_channels: Width = 3
    ) -> Supernet:
        """Build the continuous network ``supernet(x, mixture) -> logits`` for images of this many channels."""
        if self.not_searched:
            raise UserError(f"the space {self.name!r} {self.not_searched}.")
        options = self.completed_options(options)
        rows, auxiliary = {block.name: block.rows for block in self.blocks}, bool(options.auxiliary_head)
        plan = CellPlan(rows, searching=True, options=options, auxiliary_head=auxiliary)
        body = self.build(plan, input_channels, num_classes)
        self._check_cells([module for module in body.modules() if isinstance(module, MixedCell)], options)
        return Supernet(
            body,
            {block.name: (block.cells, *block.shape) for block in self.searched_blocks(options)},
            {
                block.name: EdgeWeights(block.edges.name, block.edge_places)
                for block in self._edge_weighted_blocks(options)
            },
        )

    def _check_cells(self, cells: Sequence[MixedCell], options: SupernetOptions) -> None:
        """Reject options that a custom space has not built into its cells."""
        for option in ("partial", "auxiliary_skip"):
            wanted = getattr(options, option)
            if wanted != getattr(PLAIN, option) and {getattr(cell, option) for cell in cells} != {wanted}:
                raise UserError(
                    f"the space {self.name!r} builds cells without {option}={wanted}; build their edges with "
                    f"build_edges, or leave {option} out."
                )

    @checked
    def network(
        self, genotype: Genotype, *, num_classes: Width = 10, input_channels: Width = 3, auxiliary_head: bool = False
    ) -> nn.Module:
        """Build the plain network ``x -> logits`` of a genotype, with running statistics in its batch norms.

        It ignores all :class:`~archgrad.supernet.SupernetOptions`. With an ``auxiliary_head`` it returns ``(logits,
        auxiliary logits)`` in training mode; :func:`~archgrad.supernet.set_drop_path` sets its drop-path.
        """
        self.check(genotype)
        if auxiliary_head and not self.has_auxiliary_head:
            raise UserError(f"networks of the space {self.name!r} have no auxiliary head; leave auxiliary_head out.")
        rows = {name: tuple(_as_row(decision) for decision in cell) for name, cell in genotype.blocks}
        concat = {name: cell.concat for name, cell in genotype.blocks}
        plan = CellPlan(rows, searching=False, concat=concat, auxiliary_head=auxiliary_head)
        return self.build(plan, input_channels, num_classes)

    @checked
    def cost(
        self, genotype: Genotype, *, num_classes: Width = 10, input_channels: Width = 3, image_size: ImageSize = 32
    ) -> Cost:
        """Count the plain network of a genotype on one image; nothing is computed."""
        with torch.device("meta"):
            network = self.network(genotype, num_classes=num_classes, input_channels=input_channels)
            return cost(network, input_channels, image_size)

    @checked
    def block(self, name: str) -> DecisionBlock:
        """Return a block by its name."""
        for block in self.blocks:
            if block.name == name:
                return block
        raise unknown(f"block of the space {self.name!r}:", name, [block.name for block in self.blocks])

    def offers(self, *choices: str) -> bool:
        """Tell whether any row offers one of these choices."""
        check_value("choices", choices, tuple[str, ...])
        return any(set(row.choices) & set(choices) for block in self.blocks for row in block.rows)

    @checked
    def genotype(self, selection: ChosenPairs) -> Genotype:
        """Turn chosen (row, choice) indices into a genotype."""
        cells = {}
        for block in self.blocks:
            chosen = selection.get(block.name)
            check_value(f"selection[{block.name!r}]", chosen, Sequence[tuple[int, int]])
            if any(not 0 <= r < len(block.rows) or not 0 <= c < len(block.rows[r].choices) for r, c in chosen or ()):
                raise UserError(f"selection[{block.name!r}] names rows or choices that the block does not have.")
            rows = [(block.rows[row], choice) for row, choice in chosen or ()]
            decisions = tuple(Decision(row.target, row.source, row.choices[choice]) for row, choice in rows)
            cells[block.name] = CellGenotype(decisions, block.concat)
        return Genotype.of(cells)

    @checked
    def one_hot(self, genotype: Genotype, options: SupernetOptions | None = None) -> Mixture:
        """Return the mixture ``{block: [cells, rows, choices]}`` with ones at the genotype's choices and edges.

        Every kept edge has weight 1, as in the plain network; the edge weights of a search sum to 1 instead.
        """
        self.check(genotype)
        mixture = Mixture({})
        for block in self.blocks:
            weights = torch.zeros(block.shape)
            for decision in genotype[block.name]:
                row = row_of(block, decision)
                weights[row, block.rows[row].choices.index(decision.choice)] = 1.0
            mixture[block.name] = weights.expand(block.cells, -1, -1)
        for block in self._edge_weighted_blocks(options):
            kept = torch.zeros(block.edges.shape)
            for decision in genotype[block.name]:
                kept[block.edge_places[row_of(block, decision)]] = 1.0
            mixture[block.edges.name] = kept.expand(block.cells, -1, -1)
        return mixture

    @checked
    def check(self, genotype: Genotype) -> None:
        """Raise a :class:`~archgrad.errors.UserError` if the genotype is not in this space."""
        check_genotype(self.name, self.blocks, genotype)


def _as_row(decision: Decision) -> Row:
    return Row(decision.target, decision.source, (decision.choice,))
