"""Limit the number of skip connections in a cell."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Annotated

from archgrad.autodiff.tensors import Probabilities
from archgrad.discretizers.argmax import Argmax
from archgrad.discretizers.base import Discretizer, SupernetEvaluation, Ties, check_probabilities
from archgrad.errors import UserError
from archgrad.parts.fields import Range
from archgrad.spaces import SKIP, Genotype, SearchSpace
from archgrad.system.warn_once import warn_once

__all__ = ["LimitedSkips"]

REDUCTION = "reduce"
_log = logging.getLogger("archgrad")


@dataclass(frozen=True)
class LimitedSkips(Discretizer):
    """Repeat another derivation until no block but ``reduce`` has more than ``most`` skip connections.

    Each time, the least probable skip connection of a block with too many gets probability 0; the first one in a tie
    (P-DARTS, Chen et al., 2019, Section 3.3). A row that offers nothing else keeps it.
    """

    derivation: Discretizer = field(default_factory=Argmax, metadata={"knob": False})
    most: Annotated[int, Range(0, 1000)] = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.derivation.once:
            raise UserError(
                f"{type(self.derivation).__name__} does not decide by probabilities, so LimitedSkips cannot limit its "
                f"skip connections; use Argmax, or no limit (progressive.max_skips=none)."
            )

    @property
    def needs_simplex(self) -> bool:
        """Whether the derivation needs it."""
        return self.derivation.needs_simplex

    def check(self, space: SearchSpace) -> None:
        """Ask the derivation."""
        self.derivation.check(space)

    def ties(self, space: SearchSpace, probabilities: Probabilities, last: bool) -> Ties:
        """Ask the derivation."""
        return self.derivation.ties(space, probabilities, last)

    def select(
        self, space: SearchSpace, probabilities: Probabilities, evaluation: SupernetEvaluation | None = None
    ) -> Genotype:
        """Derive repeatedly, each time without the weakest skip connection, until few enough are left."""
        check_probabilities(space, probabilities)
        left = Probabilities(dict(probabilities))
        suppressed: set[tuple[str, int]] = set()
        while True:
            genotype = self.derivation.select(space, left, evaluation)
            weakest = self._weakest(space, genotype, probabilities, suppressed)
            if weakest is None:
                return genotype
            suppressed.add(weakest)
            block, row = weakest
            left[block] = left[block].clone()
            left[block][row, space.block(block).rows[row].choices.index(SKIP)] = 0.0

    def _weakest(
        self,
        space: SearchSpace,
        genotype: Genotype,
        probabilities: Probabilities,
        suppressed: set[tuple[str, int]],
    ) -> tuple[str, int] | None:
        """Return the block and row of the skip connection to remove; None if there is none to remove."""
        for block in space.blocks:
            if block.name == REDUCTION or genotype[block.name].count(SKIP) <= self.most:
                continue
            chosen = {(one.target, one.source) for one in genotype[block.name] if one.choice == SKIP}
            rows = [index for index, row in enumerate(block.rows) if (row.target, row.source) in chosen]
            free = [row for row in rows if (block.name, row) not in suppressed]
            if free:
                weights = probabilities[block.name].tolist()
                return block.name, min(free, key=lambda row: weights[row][block.rows[row].choices.index(SKIP)])
            warn_once(
                _log,
                "block %r keeps %d skip connections, more than the %d allowed: its edges offer nothing else.",
                block.name,
                len(rows),
                self.most,
            )
        return None
