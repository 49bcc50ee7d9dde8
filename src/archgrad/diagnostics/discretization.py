"""The accuracy that a supernet loses when its mixture becomes one architecture."""

from __future__ import annotations

from statistics import mean

from archgrad.diagnostics.snapshot import Snapshot
from archgrad.discretizers.base import options_with
from archgrad.errors import UserError
from archgrad.relaxations import expand_to_cells
from archgrad.tensors import Mixture

__all__ = ["measure_discretization"]


def measure_discretization(snapshot: Snapshot, batches: int) -> dict[str, float]:
    """Return ``mixture_accuracy`` and ``discrete_accuracy`` in per cent, over at most so many batches."""
    evaluation, space = snapshot.evaluation, snapshot.space
    if evaluation is None:
        raise UserError("the snapshot has no evaluation, which accuracies need; give it one.")

    def accuracy(mixture: Mixture) -> float:
        return mean(evaluation.accuracy(mixture, number) for number in range(min(batches, evaluation.batches)))

    options = options_with(space, snapshot.probabilities)
    return {
        "mixture_accuracy": accuracy(expand_to_cells(space.searched_blocks(options), snapshot.probabilities)),
        "discrete_accuracy": accuracy(space.one_hot(snapshot.genotype, options)),
    }
