"""What a supernet loses when its mixture becomes one architecture."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import mean

from torch import Tensor

from archgrad.diagnostics.base import Snapshot
from archgrad.discretizers.base import options_in
from archgrad.errors import UserError
from archgrad.relaxations import spread

__all__ = ["discretisation", "measure_discretisation"]

_BATCHES = 32


def discretisation(snapshot: Snapshot) -> dict[str, float]:
    """At the end of a search, the accuracy of the shared weights with its mixture and with its architecture.

    GAEA, Section 4.1: the less they differ, the less the relaxation has misled the search. No weight is retrained.
    """
    return measure_discretisation(snapshot, _BATCHES) if snapshot.last and not snapshot.undecided else {}


def measure_discretisation(snapshot: Snapshot, batches: int) -> dict[str, float]:
    """Return ``mixture_accuracy`` and ``discrete_accuracy`` in per cent, over at most so many batches."""
    judge, space = snapshot.judge, snapshot.space
    if judge is None:
        raise UserError("a snapshot without a judge cannot tell accuracies; give it one.")

    def accuracy(mixture: Mapping[str, Tensor]) -> float:
        return mean(judge.accuracy(mixture, number) for number in range(min(batches, judge.batches)))

    options = options_in(space, snapshot.probabilities)
    return {
        "mixture_accuracy": accuracy(spread(space.searched_blocks(options), dict(snapshot.probabilities))),
        "discrete_accuracy": accuracy(space.one_hot(snapshot.genotype, options)),
    }
