"""Perturbation-based selection: keep the operations whose removal hurts most."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, NamedTuple

import torch
from torch import Tensor

from archgrad.autodiff.tensors import Mixture, Probabilities
from archgrad.discretizers.argmax import DerivedOnce
from archgrad.discretizers.base import (
    SupernetEvaluation,
    Tuning,
    edge_strengths,
    measurer,
    options_with,
)
from archgrad.errors import UserError
from archgrad.parts.fields import Count, Positive, Range
from archgrad.relaxations import expand_to_cells
from archgrad.spaces import DecisionBlock, Genotype, SearchSpace

__all__ = ["Perturbation"]

Rows = dict[str, Tensor]
"""Block → weights ``[rows, choices]``, the same in all its cells."""


@dataclass(frozen=True)
class Perturbation(DerivedOnce):
    """Keep, on each edge, the operation whose removal hurts the metric most: DARTS+PT (Wang et al., 2021).

    The edges of all blocks are decided one by one, in random order. To remove an operation, its weight becomes 0; the
    other weights of its edge stay the same. The kept operation gets weight 1 for good. Then the search continues for
    ``tune_epochs`` before the next decision. It trains the weights, with new momentum, at the constant learning rate
    ``tune_rate`` times the initial one, and α of the undecided rows, unless its optimizer has no steps left (XNAS).
    After all operations, the nodes that keep only some edges are visited in random order: each keeps the edges whose
    removal hurts most.

    Metrics are means over ``batches`` batches (None: all). The more probable candidate wins a tie, then the first. It
    runs at the end of a search; epochs before record the genotype of Argmax.
    """

    tune_epochs: Annotated[int, Range(0, 10_000)] = 5
    batches: Count | None = None
    tune_rate: Positive = 0.1

    def select(
        self, space: SearchSpace, probabilities: Probabilities, evaluation: SupernetEvaluation | None = None
    ) -> Genotype:
        """Decide edge by edge, then node by node."""
        supernet = measurer(self, space, probabilities, evaluation)
        if self.tune_epochs and supernet.tune is None:
            raise UserError(
                "Perturbation needs a supernet to train; give select() an evaluation that can tune, or use "
                "discretizers.Argmax(), which needs none."
            )
        return _Derivation(self, space, supernet, probabilities).run()


class _Place(NamedTuple):
    """The place of a decision: a row of a block, or one of its target nodes."""

    block: DecisionBlock
    where: int


class _Derivation:
    """One derivation in progress: the weights of all rows, and the choices so far."""

    def __init__(
        self,
        rule: Perturbation,
        space: SearchSpace,
        evaluation: SupernetEvaluation,
        probabilities: Probabilities,
    ) -> None:
        self.rule, self.space, self.evaluation = rule, space, evaluation
        self.probabilities = probabilities
        self.rows: Rows = {name: value.detach().clone() for name, value in probabilities.items()}
        self.chosen: dict[str, dict[int, list[int]]] = {block.name: {} for block in space.blocks}
        self.decided = {name: torch.zeros(len(value), dtype=torch.bool) for name, value in self.rows.items()}

    def run(self) -> Genotype:
        """Decide everything."""
        blocks = self.space.blocks
        edges = self._shuffled([_Place(block, row) for block in blocks for row in range(len(block.rows))])
        nodes = self._shuffled([_Place(block, target) for block in blocks for target in _selective_nodes(block)])
        places = [*edges, *nodes]
        for number, place in enumerate(places):
            if number:
                self._tune()
            decided = self._decide_operation(place) if number < len(edges) else self._decide_edges(place)
            self.evaluation.report(decided, number + 1, len(places))
        return self.space.genotype(
            {
                name: [(row, choice) for row in sorted(rows) for choice in sorted(rows[row])]
                for name, rows in self.chosen.items()
            }
        )

    def _shuffled(self, places: Sequence[_Place]) -> list[_Place]:
        return [places[index] for index in torch.randperm(len(places), generator=self.evaluation.generator).tolist()]

    def _tune(self) -> None:
        """Continue the search, and take over its probabilities for the undecided rows."""
        rule = self.rule
        if rule.tune_epochs and self.evaluation.tune is not None:
            found = self.evaluation.tune(
                Tuning(Probabilities(self.rows), self.decided, rule.tune_epochs, rule.tune_rate)
            )
            self.rows = {
                name: torch.where(self.decided[name][:, None], value, found[name].to(value))
                for name, value in self.rows.items()
            }

    def _decide_operation(self, place: _Place) -> str:
        """Keep the operations of one row whose removal hurts most, as many as the row picks."""
        block, index = place
        row, strengths = block.rows[index], dict(enumerate(self.rows[block.name][index].tolist()))
        without = partial(self._without, block, index)
        kept = self._most_missed(block.allowed(index), row.picks, strengths, without)
        weights = self.rows[block.name].clone()
        weights[index] = 0.0
        weights[index, kept] = 1.0
        self.rows |= {block.name: weights}
        self.decided[block.name][index] = True
        self.chosen[block.name][index] = kept
        return f"{block.name} {row.name}: {', '.join(row.choices[choice] for choice in sorted(kept))}"

    def _decide_edges(self, place: _Place) -> str:
        """Keep the edges into one node whose removal hurts most, and remove the others for good."""
        block, target = place
        entering = block.rows_into(target)
        strengths = {row: self._strength(block, row) for row in entering}
        kept = self._most_missed(entering, block.keep or 0, strengths, lambda row: self._without(block, row))
        for row in entering:
            if row not in kept:
                self.rows = self._without(block, row)
                del self.chosen[block.name][row]
        if block.has_edge_weights(self.rows):
            self.decided[block.edges.name][block.edge_places[entering[0]][0]] = True
        return f"{block.name} {target}: keeps {', '.join(block.rows[row].name for row in sorted(kept))}"

    def _most_missed(
        self, candidates: Sequence[int], count: int, strength: Mapping[int, float], without: Callable[[int], Rows]
    ) -> list[int]:
        """Return the candidates whose removal gives the lowest score; without a choice, measure nothing."""
        if len(candidates) <= count:
            return list(candidates)
        left = {candidate: self._score(without(candidate)) for candidate in candidates}
        return sorted(candidates, key=lambda candidate: (left[candidate], -strength[candidate]))[:count]

    def _without(self, block: DecisionBlock, row: int, choice: int | None = None) -> Rows:
        """Return the weights without one operation of a row, or without its whole edge."""
        weights = self.rows[block.name].clone()
        weights[row, slice(None) if choice is None else choice] = 0.0
        if choice is not None or not block.has_edge_weights(self.rows):
            return {**self.rows, block.name: weights}
        edges = self.rows[block.edges.name].clone()
        edges[block.edge_places[row]] = 0.0
        return {**self.rows, block.name: weights, block.edges.name: edges}

    def _strength(self, block: DecisionBlock, row: int) -> float:
        """Return the probability of a row's chosen operation, times its edge weight."""
        edges = edge_strengths(block, self.probabilities)
        best = max(float(self.probabilities[block.name][row, choice]) for choice in self.chosen[block.name][row])
        return best if edges is None else best * edges[row]

    def _score(self, rows: Rows) -> float:
        evaluation, mixture = self.evaluation, self._mixture(rows)
        count = evaluation.batches if self.rule.batches is None else min(self.rule.batches, evaluation.batches)
        return evaluation.mean_score(mixture, count)

    def _mixture(self, rows: Rows) -> Mixture:
        probabilities = Probabilities(rows)
        return expand_to_cells(self.space.searched_blocks(options_with(self.space, probabilities)), probabilities)


def _selective_nodes(block: DecisionBlock) -> list[int]:
    """Return the nodes that keep only some of their edges."""
    return [target for target in block.targets if block.keep is not None and len(block.rows_into(target)) > block.keep]
