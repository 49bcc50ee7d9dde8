"""A space that is searched in stages, each deeper than the last and with fewer choices: P-DARTS."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from archgrad.errors import UserError, check_probability, check_whole
from archgrad.spaces.block import DecisionBlock, Row
from archgrad.spaces.genotype import SKIP
from archgrad.spaces.space import SearchSpace

__all__ = ["Progressive", "Stage", "StageKnobs", "kept_choices"]


@dataclass(frozen=True)
class Stage:
    """One stage: a supernet of ``cells`` cells with at most ``keep`` choices on each row.

    ``cells`` counts as the space itself counts its depth (:attr:`~archgrad.spaces.SearchSpace.depth_knob`); None keeps
    the space's own. ``skip_dropout`` is the rate by which skip connections drop numbers at the beginning of the stage.
    Of the channels 1/``partial`` pass through the operations; None keeps the method's own share. A later stage with a
    larger share is how DrNAS widens its supernet (Chen et al., 2021, Section 3.4).
    """

    cells: int | None = None
    keep: int = 8
    skip_dropout: float = 0.0
    partial: int | None = None

    def __post_init__(self) -> None:
        if self.cells is not None:
            check_whole("cells of a stage", self.cells)
        check_whole("keep of a stage", self.keep)
        if self.partial is not None:
            check_whole("partial of a stage", self.partial)
        check_probability("skip_dropout of a stage", self.skip_dropout)


@dataclass(frozen=True)
class Progressive:
    """Search in stages, each with weights and α of its own, and drop the weakest choices between them (P-DARTS).

    After a stage, each row keeps as many choices as the next stage's ``keep`` says, those of the largest probability;
    ``none`` is a choice like the others (Chen et al., 2019, Section 3.2). The last stage's result is derived as the
    method says; no block but ``reduce`` may then have more than ``max_skips`` skip connections (Section 3.3; None: any
    number). The published stages are the default.

    >>> [(stage.cells, stage.keep) for stage in Progressive().stages]
    [(5, 8), (11, 5), (17, 3)]
    """

    stages: tuple[Stage, ...] = (Stage(5, 8, 0.0), Stage(11, 5, 0.4), Stage(17, 3, 0.7))
    max_skips: int | None = 2

    def __post_init__(self) -> None:
        if not self.stages:
            raise UserError("a progressive search has no stages; give at least one Stage.")
        keeps = [stage.keep for stage in self.stages]
        if keeps != sorted(keeps, reverse=True):
            raise UserError(
                f"the stages keep {', '.join(map(str, keeps))} choices on each row; a choice that was dropped does not "
                f"come back, so each stage must keep at most as many as the one before."
            )
        if self.max_skips is not None:
            check_whole("max_skips of a progressive search", self.max_skips, least=0)

    @property
    def flat(self) -> StageKnobs:
        """The same, a knob each."""
        rows = [(one.cells, one.keep, one.skip_dropout, one.partial) for one in self.stages]
        cells, keep, skip_dropout, partial = zip(*rows, strict=True)
        return StageKnobs(cells, keep, skip_dropout, partial if any(partial) else (None,), self.max_skips)

    def check(self, space: SearchSpace) -> None:
        """Refuse, before anything is trained, a space that cannot be searched in these stages."""
        if space.skip_dropout:
            raise UserError(
                f"skip_dropout of the space {space.name!r} is {space.skip_dropout}, but the stages of a progressive "
                f"search have their own; leave it at 0 and set theirs (progressive.skip_dropout)."
            )
        sized = [self.sized(space, number) for number in range(len(self.stages))]
        widest = max(len(row.choices) for block in sized[0].blocks for row in block.rows)
        if self.stages[0].keep < widest:
            raise UserError(
                f"the first stage keeps {self.stages[0].keep} choices on each row, but the space {space.name!r} offers "
                f"up to {widest}, and nothing has been searched to choose them by; set keep of the first stage to "
                f"{widest} or more, or restrict the space."
            )
        names = [[block.name for block in one.blocks] for one in sized]
        if any(own != names[0] for own in names):
            raise UserError(
                f"the space {space.name!r} decides in every cell alone, so that the cells a stage adds have no choices "
                f"to drop; give all stages the same number of cells (progressive.cells=none keeps the space's own)."
            )

    def sized(self, space: SearchSpace, number: int) -> SearchSpace:
        """Return the space as deep as a stage, from 0, and with its skip dropout where skip connections are offered."""
        stage = self.stages[number]
        depth = {} if stage.cells is None else {space.depth_knob: stage.cells}
        rate = stage.skip_dropout if space.offers(SKIP) else 0.0
        changes: dict[str, Any] = {**depth, "skip_dropout": rate}
        return replace(space, **changes)

    def narrowed(self, space: SearchSpace, probabilities: Mapping[str, Tensor], number: int) -> SearchSpace:
        """Return what a stage searches, given what the stage before it searched, and found."""
        keep = self.stages[number].keep
        kept = {block.name: kept_choices(block, probabilities[block.name], keep) for block in space.blocks}
        return self.sized(space.restricted(kept), number)


@dataclass(frozen=True)
class StageKnobs:
    """The stages of a progressive search by what they differ in: a value for each stage, or one for all.

    >>> replace(Progressive().flat, cells=(None,)).whole.stages[1]
    Stage(cells=None, keep=5, skip_dropout=0.4, partial=None)
    """

    cells: tuple[int | None, ...]
    keep: tuple[int, ...]
    skip_dropout: tuple[float, ...]
    partial: tuple[int | None, ...]
    max_skips: int | None

    @property
    def whole(self) -> Progressive:
        """The progressive search of these."""
        names = ("cells", "keep", "skip_dropout", "partial")
        knobs: dict[str, Sequence[Any]] = {name: getattr(self, name) for name in names}
        count = max(map(len, knobs.values()))
        for name, values in knobs.items():
            if len(values) not in (1, count):
                raise UserError(
                    f"progressive.{name} has {len(values)} values, but there are {count} stages; give one for each, or "
                    f"one for all."
                )
        columns = [values if len(values) == count else [*values] * count for values in knobs.values()]
        return Progressive(tuple(Stage(*row) for row in zip(*columns, strict=True)), self.max_skips)


def kept_choices(block: DecisionBlock, probabilities: Tensor, keep: int) -> list[tuple[str, ...]]:
    """Return the names of the ``keep`` strongest choices of each row; of equals, the first.

    What a row needs to make its picks stays in any case: a row is never left with choices alone that a genotype may not
    contain.

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
