"""The plan of a search in stages, each deeper and with fewer choices than the one before: P-DARTS."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any

from torch import Tensor

from archgrad.errors import UserError
from archgrad.parts.fields import Count, Probability, Range, check_fields
from archgrad.spaces import DecisionBlock, Row, SearchSpace

__all__ = ["Progressive", "Stage", "kept_choices"]


@dataclass(frozen=True)
class Stage:
    """One stage: a supernet of ``cells`` cells with at most ``keep`` choices on each row.

    ``cells`` is the value of the space's :attr:`~archgrad.spaces.SearchSpace.depth_knob`; None keeps the space's own.
    ``skip_dropout`` is the dropout rate on skip connections at the start of the stage. 1/``partial`` of the channels
    pass through the operations; None keeps the method's share. DrNAS widens its supernet by a larger share in later
    stages (Chen et al., 2021, Section 3.4).
    """

    cells: Count | None = None
    keep: Count = 8
    skip_dropout: Probability = 0.0
    partial: Count | None = None

    def __post_init__(self) -> None:
        check_fields(self, "{} of a stage")


@dataclass(frozen=True)
class Progressive:
    """Search in stages, each with new weights and a new α, and drop the weakest choices between stages (P-DARTS).

    Each field but the last has one value per stage, or one for all: see :class:`Stage`. After a stage, each row keeps
    its most probable choices, as many as the next stage's ``keep``; ``none`` is a choice like the others (Chen et al.,
    2019, Section 3.2). The method's discretizer derives the genotype after the last stage. No block but ``reduce`` may
    then have more than ``max_skips`` skip connections (Section 3.3; None: any number). The defaults are the published
    stages.

    >>> Progressive(cells=(None,)).stages[1]
    Stage(cells=None, keep=5, skip_dropout=0.4, partial=None)
    """

    cells: tuple[Count | None, ...] = (5, 11, 17)
    keep: tuple[Count, ...] = (8, 5, 3)
    skip_dropout: tuple[Probability, ...] = (0.0, 0.4, 0.7)
    partial: tuple[Count | None, ...] = (None,)
    max_skips: Annotated[int, Range(0, 1000)] | None = 2

    def __post_init__(self) -> None:
        check_fields(self, "progressive.{}")
        self._check_lengths()
        keeps = [stage.keep for stage in self.stages]
        if keeps != sorted(keeps, reverse=True):
            raise UserError(
                f"the stages keep {', '.join(map(str, keeps))} choices on each row; a dropped choice does not come "
                f"back, so give each stage at most the keep of the one before."
            )

    def _check_lengths(self) -> None:
        for name, values in self._columns.items():
            if len(values) not in (1, self._count) or not values:
                raise UserError(
                    f"progressive.{name} has {len(values)} values, but there are {self._count} stages; give one for "
                    f"each, or one for all."
                )

    @property
    def _columns(self) -> dict[str, tuple[Any, ...]]:
        return {knob.name: getattr(self, knob.name) for knob in fields(Stage)}

    @property
    def _count(self) -> int:
        return max(map(len, self._columns.values()))

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages, in order."""
        columns = [values * (self._count // len(values)) for values in self._columns.values()]
        return tuple(Stage(*row) for row in zip(*columns, strict=True))

    def check(self, space: SearchSpace) -> None:
        """Reject, before any training, a space that cannot be searched in these stages."""
        sized = [self.sized(space, number) for number in range(len(self.stages))]
        widest = max(len(row.choices) for block in sized[0].blocks for row in block.rows)
        if self.stages[0].keep < widest:
            raise UserError(
                f"the first stage keeps {self.stages[0].keep} choices on each row, but the space {space.name!r} offers "
                f"up to {widest}, and no search has ranked them yet; set keep of the first stage to {widest} or more, "
                f"or restrict the space."
            )
        names = [[(block.name, len(block.rows)) for block in one.blocks] for one in sized]
        if any(own != names[0] for own in names):
            raise UserError(
                f"the space {space.name!r} decides each cell separately, so cells added by a later stage have no "
                f"probabilities; give all stages the same number of cells (progressive.cells=none keeps the space's)."
            )

    def sized(self, space: SearchSpace, number: int) -> SearchSpace:
        """Return the space with the depth of stage ``number``, counted from 0."""
        cells = self.stages[number].cells
        depth: dict[str, Any] = {} if cells is None else {space.depth_knob: cells}
        return replace(space, **depth)

    def narrowed(self, space: SearchSpace, probabilities: Mapping[str, Tensor], number: int) -> SearchSpace:
        """Return the space of stage ``number``, given the space and the probabilities of the stage before it."""
        keep = self.stages[number].keep
        kept = {block.name: kept_choices(block, probabilities[block.name], keep) for block in space.blocks}
        return self.sized(space.restricted(kept), number)


def kept_choices(block: DecisionBlock, probabilities: Tensor, keep: int) -> list[tuple[str, ...]]:
    """Return the names of the ``keep`` strongest choices of each row; the first wins a tie.

    A row always keeps enough choices that a genotype may contain to make its picks.

    >>> import torch
    >>> block = DecisionBlock("cell", 1, (Row(1, 0, ("none", "skip", "conv")),))
    >>> kept_choices(block, torch.tensor([[0.2, 0.2, 0.6]]), 2)
    [('none', 'conv')]
    """
    weights = probabilities.tolist()
    return [
        _kept(block, row, dict(zip(row.choices, own, strict=False)), keep)
        for row, own in zip(block.rows, weights, strict=True)
    ]


def _kept(block: DecisionBlock, row: Row, weights: Mapping[str, float], keep: int) -> tuple[str, ...]:
    order = sorted(row.choices, key=lambda choice: -weights[choice])
    needed = [choice for choice in order if choice not in block.excluded][: row.picks]
    others = [choice for choice in order if choice not in needed]
    names = {*needed, *others[: max(keep - len(needed), 0)]}
    return tuple(choice for choice in row.choices if choice in names)
