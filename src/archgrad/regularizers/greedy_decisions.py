"""Decide edge after edge during the search: SGAS."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from archgrad.autodiff.tensors import Probabilities
from archgrad.errors import UserError
from archgrad.parts.fields import Range
from archgrad.regularizers.base import DecisionStep, Regularizer
from archgrad.relaxations import DecidedRows, Relaxation
from archgrad.spaces import DecisionBlock
from archgrad.system.devices import widened

__all__ = ["GreedyDecisions"]


@dataclass(frozen=True)
class GreedyDecisions(Regularizer):
    """Fix one edge after another to its best operation, the most important and certain first (SGAS, Li et al., 2020).

    This is their criterion 1. With q = p over the k operations that a genotype may contain, an edge has the importance
    s = Σ q, the certainty c = 1 − H(q/s)/log k, and the score n(s)·n(c), where n maps the smallest value of all edges
    of a block to 0 and the largest to 1; where all are equal, n is 1. Each decision fixes the undecided edge of the
    highest score in every block; from then on only its operation is computed, with weight 1, and its α rests. A node
    that has all the edges that it keeps loses the others.

    The n decisions of a block come at the ends of epochs: the first after the share ``begin`` of the search, the last
    after the share ``end``, evenly in between. In a short search several come at once. With 50 epochs and the two edges
    of four nodes, the defaults are epochs 10, 15, …, 45, as in the published code, which also enlarges the batch by 8
    images at each decision; here it stays.
    """

    begin: Annotated[float, Range(0, 1)] = 0.2
    end: Annotated[float, Range(0, 1)] = 0.9

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.begin > self.end:
            raise UserError(
                f"greedy-decisions.begin is {self.begin}, after greedy-decisions.end, which is {self.end}; the first "
                f"decision cannot come after the last."
            )

    def check(self, relaxation: Relaxation) -> None:
        """Reject a relaxation without anything to decide by."""
        if not relaxation.learns:
            raise UserError(
                f"GreedyDecisions decides by what α has learned, but {type(relaxation).__name__} does not depend on "
                f"α; choose another relaxation, or leave GreedyDecisions out."
            )

    def check_blocks(self, blocks: Sequence[DecisionBlock]) -> None:
        """Reject edges that are decided apart from their operations."""
        for block in blocks:
            if block.kind == "edge":
                raise UserError(
                    f"GreedyDecisions decides an edge with its operation, but block {block.name!r} weighs edges by "
                    f"themselves; search without edge weights, in a space with operations on edges, such as darts or "
                    f"nasbench201, or leave GreedyDecisions out."
                )

    def due(self, decisions: int, epoch: int, epochs: int) -> int:
        """Return how many of a block's decisions are due after an epoch, counted from 1.

        >>> [GreedyDecisions().due(8, epoch, 50) for epoch in (9, 10, 14, 15, 45, 50)]
        [0, 1, 1, 2, 8, 8]
        """
        pause = (self.end - self.begin) / max(decisions - 1, 1)
        return sum((self.begin + pause * number) * epochs <= epoch + _SLACK for number in range(decisions))

    def decide(self, step: DecisionStep) -> DecidedRows:
        """Decide what is due after this epoch."""
        decided = step.decided
        for block in step.blocks:
            rows = step.probabilities[block.name]
            kept = [min(block.keep or len(own), len(own)) for own in _nodes(block)]
            due, order = self.due(sum(kept), step.epoch, step.epochs), _ranked(block, rows)
            weights = decided.weights.get(block.name, torch.zeros_like(rows))
            marks = decided.marks.get(block.name, torch.zeros(len(rows), dtype=torch.bool))
            while int(weights.count_nonzero()) < due:
                row, choice = next((row, choice) for row, choice in order if not marks[row])
                weights, marks = weights.clone(), marks.clone()
                weights[row, choice], marks[row] = 1.0, True
                for own, most in zip(_nodes(block), kept, strict=True):
                    if int(weights[own].count_nonzero()) == most:
                        marks[own] = True
            if due:
                decided = decided.joined(DecidedRows(Probabilities({block.name: weights}), {block.name: marks}))
        return decided


_SLACK = 1e-9
"""Rounding of shares of a search, in epochs."""
_EQUAL = 1e-6
"""Importances that differ by less are rounded sums of 1."""


def _nodes(block: DecisionBlock) -> list[list[int]]:
    """Return the rows that enter each node."""
    return [block.rows_into(target) for target in block.targets]


def _ranked(block: DecisionBlock, rows: Tensor) -> list[tuple[int, int]]:
    """Return all rows by their score, the highest first, each with its best choice; the first wins a tie."""
    allowed = [block.allowed(row) for row in range(len(block.rows))]
    own = [widened(rows[row])[places] for row, places in enumerate(allowed)]
    importance = torch.stack([weights.sum() for weights in own])
    certainty = torch.stack([_certainty(weights) for weights in own])
    score = (_normalized(importance) * _normalized(certainty)).tolist()
    order = sorted(range(len(score)), key=lambda row: -score[row])
    return [(row, allowed[row][int(own[row].argmax())]) for row in order]


def _certainty(weights: Tensor) -> Tensor:
    """Return 1 − H/log k of k weights, 1 for a single one."""
    if len(weights) == 1:
        return weights.new_ones(())
    shares = weights / weights.sum()
    entropy: Tensor = torch.special.entr(shares).sum()
    return 1 - entropy / math.log(len(shares))


def _normalized(values: Tensor) -> Tensor:
    span = values.max() - values.min()
    return (values - values.min()) / span if span > _EQUAL else torch.ones_like(values)
