"""What a supernet loses when its mixture becomes one architecture."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import mean

from torch import Tensor

from archgrad.diagnostics.snapshot import Snapshot
from archgrad.errors import UserError
from archgrad.relaxations import spread

__all__ = ["measure_discretisation"]


def measure_discretisation(snapshot: Snapshot, batches: int) -> dict[str, float]:
    """Return ``mixture_accuracy`` and ``discrete_accuracy`` in per cent, over at most so many batches."""
    judge, space = snapshot.judge, snapshot.space
    if judge is None:
        raise UserError("a snapshot without a judge cannot tell accuracies; give it one.")

    def accuracy(mixture: Mapping[str, Tensor]) -> float:
        return mean(judge.accuracy(mixture, number) for number in range(min(batches, judge.batches)))

    return {
        "mixture_accuracy": accuracy(spread(space.searched, dict(snapshot.probabilities))),
        "discrete_accuracy": accuracy(space.one_hot(snapshot.genotype)),
    }
