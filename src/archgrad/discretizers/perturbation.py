"""Keep what a supernet cannot do without: perturbation-based selection."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from archgrad.discretizers.argmax import Argmax
from archgrad.discretizers.base import Discretizer, SupernetEvaluation, Tuning, edge_strengths, options_with
from archgrad.discretizers.ties import Ties
from archgrad.errors import UserError, check_number, check_whole
from archgrad.relaxations import expand_to_cells
from archgrad.spaces import DecisionBlock, Genotype, SearchSpace
from archgrad.tensors import Mixture, Probabilities

__all__ = ["Perturbation"]

Rows = dict[str, Tensor]
"""Block → weights ``[rows, choices]``, the same in all its cells."""


@dataclass(frozen=True)
class Perturbation(Discretizer):
    """On each edge the operation whose removal hurts the supernet's accuracy most: DARTS+PT (Wang et al., 2021).

    The edges of all blocks are decided one by one, in a random order. To remove an operation, its weight becomes 0 and
    the others of its edge stay as they are. What is kept gets the weight 1 for good, and the search goes on for
    ``tune_epochs`` before the next decision: the weights, at ``tune_rate`` times the first learning rate, constant and
    without the momentum they had, and the architecture parameters of what is not decided, unless their optimizer has
    taken all its steps (XNAS). Once all operations are decided, the nodes that keep some edges only are visited in a
    random order in the same way: an edge is removed whole, those whose removal hurts most stay, the others go.

    Accuracies are over ``batches`` batches (None: all there are). Among equals the stronger one by the probabilities
    is kept, and of those the first. It runs at the end of a search; the epochs before record what Argmax derives.
    """

    once: ClassVar[bool] = True
    measures: ClassVar[bool] = True

    tune_epochs: int = 5
    batches: int | None = None
    tune_rate: float = 0.1

    def __post_init__(self) -> None:
        check_whole("discretizer.tune_epochs", self.tune_epochs, least=0)
        check_number("discretizer.tune_rate", self.tune_rate, positive=True)
        if self.batches is not None:
            check_whole("discretizer.batches", self.batches)

    def ties(self, space: SearchSpace, probabilities: Probabilities, last: bool) -> Ties:
        """Return none at the end, where accuracies decide."""
        return Ties() if last else Argmax().ties(space, probabilities, last)

    def interim(
        self, space: SearchSpace, probabilities: Probabilities, evaluation: SupernetEvaluation | None = None
    ) -> Genotype:
        """Derive by the probabilities alone."""
        return Argmax().select(space, probabilities)

    def select(
        self, space: SearchSpace, probabilities: Probabilities, evaluation: SupernetEvaluation | None = None
    ) -> Genotype:
        """Decide one edge after the other, then one node after the other."""
        if evaluation is None or (self.tune_epochs and evaluation.tune is None):
            raise UserError(
                "Perturbation measures and trains the weights of a supernet, and none is at hand; give select() an "
                "evaluation that can tune, or use discretizers.Argmax(), which needs none."
            )
        return _Derivation(self, space, evaluation, probabilities).run()


class _Place(NamedTuple):
    """Where something is decided: a row of a block, or one of the nodes that its rows lead to."""

    block: DecisionBlock
    where: int


class _Derivation:
    """One derivation: the weights of all rows, decided or not, and what has been chosen so far."""

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
        """Go on with the search, and take over where it moved what is not decided."""
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
        """Keep the operations of one row whose removal hurts most, as many as it picks."""
        block, index = place
        row, strengths = block.rows[index], dict(enumerate(self.rows[block.name][index].tolist()))
        allowed = [choice for choice, name in enumerate(row.choices) if name not in block.excluded]
        kept = self._most_missed(allowed, row.picks, strengths, lambda choice: self._without(block, index, choice))
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
        entering = _entering(block, target)
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
        """Return those candidates without which the accuracy is lowest; where there is no choice, nothing is asked."""
        if len(candidates) <= count:
            return list(candidates)
        left = {candidate: self._accuracy(without(candidate)) for candidate in candidates}
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
        """Return how probable the operation chosen for a row was, times the weight of its edge."""
        edges = edge_strengths(block, self.probabilities)
        best = max(float(self.probabilities[block.name][row, choice]) for choice in self.chosen[block.name][row])
        return best if edges is None else best * edges[row]

    def _accuracy(self, rows: Rows) -> float:
        evaluation, mixture = self.evaluation, self._mixture(rows)
        count = evaluation.batches if self.rule.batches is None else min(self.rule.batches, evaluation.batches)
        return fmean(evaluation.accuracy(mixture, batch) for batch in range(count))

    def _mixture(self, rows: Rows) -> Mixture:
        probabilities = Probabilities(rows)
        return expand_to_cells(self.space.searched_blocks(options_with(self.space, probabilities)), probabilities)


def _selective_nodes(block: DecisionBlock) -> list[int]:
    """Return the nodes that keep some of their edges only."""
    return [target for target in block.targets if block.keep is not None and len(_entering(block, target)) > block.keep]


def _entering(block: DecisionBlock, target: int) -> list[int]:
    """Return the rows that lead to a node."""
    return [index for index, row in enumerate(block.rows) if row.target == target]
