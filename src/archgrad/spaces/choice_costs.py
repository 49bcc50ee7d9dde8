"""The cost of an architecture as a sum over its choices, its expectation, and exchanges of one choice for another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from archgrad.spaces.block import DecisionBlock
from archgrad.spaces.genotype import Genotype, row_of

__all__ = ["ChoiceCosts", "Selected", "exchanges", "selected_choices", "weights_of"]

Selected = dict[str, list[tuple[int, int]]]
"""Block name → the chosen (row, choice) pairs, in order."""


@dataclass(frozen=True, eq=False)
class ChoiceCosts:
    """The cost of a plain network: ``fixed``, plus the cost of each choice that it makes.

    ``choices`` ``{block: [rows, choices]}``, in float64, has the cost of a choice in all cells of its block together.
    """

    blocks: Sequence[DecisionBlock]
    fixed: float
    choices: Mapping[str, Tensor]

    def expected(self, probabilities: Mapping[str, Tensor]) -> Tensor:
        """Return the expected cost, a float64 scalar on the CPU, differentiable in the probabilities.

        A genotype takes k_g choices from each group g: the picks of a row, or the edges that a node keeps of all that
        enter it. With the entries (r, c) of a group drawn in proportion to their weights,

            E = fixed + Σ_g k_g · Σ_{(r,c) in g} w[r, c] · cost[r, c] / Σ_{(r,c) in g} w[r, c].

        w is the probability of an allowed choice, times the edge weight where edges compete and have weights. At the
        one-hot mixture of a genotype the last sum is k_g, so E is the cost of the genotype. Probabilities are
        ``[..., rows, choices]``; the mean over all leading dimensions counts.
        """
        total = torch.tensor(self.fixed, dtype=torch.float64)
        for block in self.blocks:
            weights = weights_of(block, probabilities)
            groups = list(_groups_of(block))
            group_of = {row: number for number, (rows, _) in enumerate(groups) for row in rows}
            index = torch.tensor([group_of[row] for row in range(len(block.rows))])
            zeros = torch.zeros(len(groups), dtype=torch.float64)
            costs = zeros.index_add(0, index, (weights * self.choices[block.name]).sum(-1))
            mass = zeros.index_add(0, index, weights.sum(-1))
            taken = torch.tensor([float(count) for _, count in groups], dtype=torch.float64)
            total = total + (taken * costs / mass.where(mass > 0, torch.ones_like(mass))).sum()
        return total

    def of(self, selected: Selected) -> float:
        """Return the cost of a selection."""
        return self.fixed + sum(float(self.choices[name][row, one]) for name in selected for row, one in selected[name])

    def select(self, probabilities: Mapping[str, Tensor], margin: float = 0.0) -> Selected:
        """Return the most expensive selection whose choices and edges are nearly the strongest.

        They have at least 1 − ``margin`` times the weight of the weakest that the strongest selection takes. So margin
        0 gives what the space's own derivation does, up to exact ties.
        """
        return {
            block.name: _select(block, weights_of(block, probabilities).tolist(), self.choices[block.name], margin)
            for block in self.blocks
        }

    def extreme(self, cheapest: bool) -> Selected:
        """Return the cheapest or the most expensive selection."""
        sign = -1.0 if cheapest else 1.0
        even = {block.name: block.mask.double() for block in self.blocks}
        return ChoiceCosts(self.blocks, 0.0, {name: sign * one for name, one in self.choices.items()}).select(even)


def _groups_of(block: DecisionBlock) -> Iterator[tuple[list[int], int]]:
    """Yield groups of rows whose choices compete, and how many of those choices a genotype takes."""
    for target in block.targets:
        rows = block.rows_into(target)
        if block.keep is not None and block.keep < len(rows):
            yield rows, block.keep
        else:
            yield from (([row], block.rows[row].picks) for row in rows)


def weights_of(block: DecisionBlock, probabilities: Mapping[str, Tensor]) -> Tensor:
    """Return the weights of a block's choices in float64; those that a genotype may not contain have weight 0."""
    allowed = torch.tensor(
        [
            [index < len(row.choices) and row.choices[index] not in block.excluded for index in range(block.shape[1])]
            for row in block.rows
        ]
    )
    weights = _mean(probabilities[block.name]) * allowed
    if block.keep is None or not block.has_edge_weights(probabilities):
        return weights
    edges, (rows, places) = _mean(probabilities[block.edges.name]), zip(*block.edge_places, strict=True)
    return weights * edges[list(rows), list(places)][:, None]


def selected_choices(blocks: Sequence[DecisionBlock], genotype: Genotype) -> Selected:
    """Return the rows and choices of a genotype."""
    found: Selected = {}
    for block in blocks:
        rows = [(row_of(block, decision), decision.choice) for decision in genotype[block.name]]
        found[block.name] = [(row, block.rows[row].choices.index(choice)) for row, choice in rows]
    return found


def exchanges(blocks: Sequence[DecisionBlock], selected: Selected) -> Iterator[tuple[str, int, int, Selected]]:
    """Yield every single exchange as (block, row, choice, the new selection).

    A choice that is not selected takes the place of one that it competes with.
    """
    for block in blocks:
        own = selected[block.name]
        for rows, _ in _groups_of(block):
            taken = [pair for pair in own if pair[0] in rows]
            for row in rows:
                rivals = [pair for pair in taken if pair[0] == row] or taken
                for choice, name in enumerate(block.rows[row].choices):
                    if name in block.excluded or (row, choice) in own:
                        continue
                    for rival in rivals:
                        changed = sorted({*own, (row, choice)}.difference([rival]))
                        yield block.name, row, choice, {**selected, block.name: changed}


def _mean(value: Tensor) -> Tensor:
    return value.cpu().double().reshape(-1, *value.shape[-2:]).mean(0)


def _select(block: DecisionBlock, weights: list[list[float]], costs: Tensor, margin: float) -> list[tuple[int, int]]:
    amounts = costs.tolist()
    chosen: dict[int, list[int]] = {}
    for index, row in enumerate(block.rows):
        chosen[index] = _take(block.allowed(index), weights[index], amounts[index], row.picks, margin)
    kept: list[int] = []
    for rows, count in _groups_of(block):
        if len(rows) == 1:
            kept += rows
            continue
        strength = {row: max(weights[row]) for row in rows}
        amount = {row: amounts[row][chosen[row][0]] for row in rows}
        kept += _take(rows, strength, amount, count, margin)
    return [(row, choice) for row in kept for choice in chosen[row]]


def _take(
    candidates: list[int],
    weights: Sequence[float] | Mapping[int, float],
    costs: Sequence[float] | Mapping[int, float],
    count: int,
    margin: float,
) -> list[int]:
    """Return the ``count`` most expensive of those candidates that are nearly the strongest, in order."""
    least = sorted((weights[one] for one in candidates), reverse=True)[count - 1] * (1 - margin)
    near = [one for one in candidates if weights[one] >= least]
    return sorted(sorted(near, key=lambda one: (-costs[one], -weights[one]))[:count])
