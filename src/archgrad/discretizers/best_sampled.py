"""Sample architectures and keep the best: random search with weight sharing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch

from archgrad.autodiff.tensors import Probabilities
from archgrad.discretizers.base import (
    Discretizer,
    SupernetEvaluation,
    edge_strengths,
    measurer,
    options_with,
)
from archgrad.parts.fields import Count, Range
from archgrad.spaces import DecisionBlock, Genotype, SearchSpace

__all__ = ["BestSampled"]


@dataclass(frozen=True)
class BestSampled(Discretizer):
    """The best of ``samples`` architectures drawn from the probabilities, measured with the shared weights.

    This is the last step of random search with weight sharing (Li & Talwalkar, 2019, Section 3.2). Operations are drawn
    by their probabilities, without excluded ones. The edges that a node keeps are drawn uniformly, or by the edge
    weights if the space has them. All architectures are measured on the same ``batches`` batches; the first one wins a
    tie.
    """

    measures: ClassVar[bool] = True

    samples: Annotated[int, Range(1, 100_000)] = 100
    batches: Count = 1

    def select(
        self, space: SearchSpace, probabilities: Probabilities, evaluation: SupernetEvaluation | None = None
    ) -> Genotype:
        """Draw, measure and keep the best."""
        supernet, options = measurer(self, space, probabilities, evaluation), options_with(space, probabilities)
        drawn = [sample_genotype(space, probabilities, supernet.generator) for _ in range(self.samples)]
        return max(dict.fromkeys(drawn), key=lambda one: supernet.mean_score(space.one_hot(one, options), self.batches))


def sample_genotype(space: SearchSpace, probabilities: Probabilities, generator: torch.Generator) -> Genotype:
    """Draw a genotype: operations by their probabilities, edges uniformly or by their weights."""
    selection = {}
    for block in space.blocks:
        edges = edge_strengths(block, probabilities)
        rows = _drawn_rows(block, edges, generator)
        weights = probabilities[block.name].tolist()
        selection[block.name] = [
            (row, choice) for row in rows for choice in _drawn_choices(block, row, weights[row], generator)
        ]
    return space.genotype(selection)


def _drawn_rows(block: DecisionBlock, edges: Sequence[float] | None, generator: torch.Generator) -> list[int]:
    kept: list[int] = []
    for target in block.targets:
        rows = block.rows_into(target)
        weights = [1.0 if edges is None else edges[row] for row in rows]
        count = len(rows) if block.keep is None else min(block.keep, len(rows))
        kept += [rows[place] for place in _drawn(weights, count, generator)]
    return kept


def _drawn_choices(block: DecisionBlock, row: int, weights: Sequence[float], generator: torch.Generator) -> list[int]:
    allowed = block.allowed(row)
    places = _drawn([weights[index] for index in allowed], block.rows[row].picks, generator)
    return [allowed[place] for place in places]


def _drawn(weights: Sequence[float], count: int, generator: torch.Generator) -> list[int]:
    """Draw ``count`` indices without replacement, each with probability proportional to its weight.

    With exponential variables E, the order of E/w is such a sequence of draws. Indices of weight 0 come last, in
    uniform order.
    """
    clocks = torch.empty(len(weights), dtype=torch.float64).exponential_(generator=generator).tolist()
    order = sorted(range(len(weights)), key=lambda place: _rings(clocks[place], weights[place]))
    return sorted(order[:count])


def _rings(clock: float, weight: float) -> tuple[bool, float]:
    return (False, clock / weight) if weight > 0 else (True, clock)
