"""The family of discretizers: from probabilities to a genotype."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from archgrad.discretizers.ties import Ties
from archgrad.spaces import DecisionBlock, Genotype, SearchSpace
from archgrad.supernet import SupernetOptions
from archgrad.tensors import Mixture, Probabilities

__all__ = [
    "Discretizer",
    "SupernetEvaluation",
    "Tune",
    "Tuning",
    "derive_genotype",
    "edge_strengths",
    "options_with",
    "strongest_choices",
]


@dataclass(frozen=True)
class Tuning:
    """How a search is to go on: with some rows decided, for some epochs, at a constant learning rate.

    ``weights`` are ``{block: [rows, choices]}``, of which those count that ``decided``, ``{block: [rows]}``, marks. The
    architecture parameters of the others go on moving. ``rate`` is the share of the first learning rate.
    """

    weights: Probabilities
    decided: Mapping[str, Tensor]
    epochs: int
    rate: float


Tune = Callable[[Tuning], Probabilities]
"""Goes on with a search; returns the probabilities ``{block: [rows, choices]}`` it then has."""


@dataclass(frozen=True)
class SupernetEvaluation:
    """What a derivation may ask of the search: how good an architecture is with the shared weights, and to train them.

    ``accuracy`` takes a mixture ``{block: [cells, rows, choices]}`` of all searched blocks, of ones and zeros for a
    discrete architecture, and the number of a batch, and returns the supernet's accuracy on it in per cent. The images
    are those that train the architecture, as they are; a bilevel search holds them out from the weights. After
    ``batches`` batches the same images come again, in another order. ``generator`` is what a derivation draws from.

    ``tune`` continues the search for so many epochs, and later accuracies are those of the continued search; None where
    nothing can be trained. ``report`` is told what has been decided, and how many decisions of how many are made.
    """

    accuracy: Callable[[Mixture, int], float]
    generator: torch.Generator
    batches: int = 1
    tune: Tune | None = None
    report: Callable[[str, int, int], None] = lambda what, done, total: None


class Discretizer(ABC):
    """Probabilities ``{block: [rows, choices]}`` of all searched blocks → genotype.

    One that derives ``once`` does so at the end of a search only; :meth:`interim` is what its epochs record. One that
    ``measures`` goes by the accuracies of architectures, so that entropy does not tell how decided it is.
    """

    once: ClassVar[bool] = False
    measures: ClassVar[bool] = False

    def check(self, space: SearchSpace) -> None:
        """Raise a UserError, before anything is trained, if genotypes of this space cannot be derived so."""
        return

    def ties(self, space: SearchSpace, probabilities: Probabilities, last: bool) -> Ties:
        """Count the exact ties that leave the genotype of an epoch, or of the whole search, to the order of choices.

        By default there are none; what goes by probabilities alone counts them.
        """
        return Ties()

    @abstractmethod
    def select(
        self, space: SearchSpace, probabilities: Probabilities, evaluation: SupernetEvaluation | None = None
    ) -> Genotype:
        """Derive the discrete architecture; a derivation that measures architectures asks the ``evaluation``."""

    def interim(
        self, space: SearchSpace, probabilities: Probabilities, evaluation: SupernetEvaluation | None = None
    ) -> Genotype:
        """Derive at the end of an epoch that is not the last: the same, but for what derives ``once``."""
        return self.select(space, probabilities, evaluation)


def derive_genotype(space: SearchSpace, probabilities: Probabilities, keep: Mapping[str, int | None]) -> Genotype:
    """Return the genotype of each row's strongest choices, of ``keep[block]`` rows at each node (None: of all)."""
    return space.genotype(
        {
            block.name: strongest_choices(
                block, probabilities[block.name], keep[block.name], edge_strengths(block, probabilities)
            )
            for block in space.blocks
        }
    )


def strongest_choices(
    block: DecisionBlock, probabilities: Tensor, keep: int | None, edges: Sequence[float] | None = None
) -> list[tuple[int, int]]:
    """Return (row, choice) of each row's best allowed choices, at each target only of the ``keep`` strongest rows.

    A row is as strong as its best choice, times the weight of its edge where ``edges`` gives one for each row
    (PC-DARTS, Xu et al., 2020, Section 3.3). Ties go to the first choice and the first row, so that the same
    probabilities always give the same genotype.
    """
    best = [_best_choices(block, index, weights) for index, weights in enumerate(probabilities.tolist())]
    strength = [row[0][1] * (1.0 if edges is None else edges[index]) for index, row in enumerate(best)]
    kept: list[int] = []
    for target in block.targets:
        rows = [index for index, row in enumerate(block.rows) if row.target == target]
        rows.sort(key=lambda index: -strength[index])
        kept += sorted(rows[:keep])
    return [(index, choice) for index in kept for choice in sorted(choice for choice, _ in best[index])]


def options_with(space: SearchSpace, probabilities: Mapping[str, Tensor]) -> SupernetOptions:
    """Return the options of a supernet that has these probabilities: with edge weights if they are among them."""
    return SupernetOptions(edge_weights=any(block.has_edge_weights(probabilities) for block in space.blocks))


def edge_strengths(block: DecisionBlock, probabilities: Mapping[str, Tensor]) -> Sequence[float] | None:
    """Return the weight of each row's edge in a block; None where edges have no weights."""
    if not block.has_edge_weights(probabilities):
        return None
    table = probabilities[block.edges.name].tolist()
    return [table[row][choice] for row, choice in block.edge_places]


def _best_choices(block: DecisionBlock, row: int, weights: list[float]) -> list[tuple[int, float]]:
    """Return the (choice, weight) pairs that a row picks, strongest first."""
    choices = block.rows[row].choices
    allowed = [(index, weights[index]) for index, choice in enumerate(choices) if choice not in block.excluded]
    return sorted(allowed, key=lambda pair: -pair[1])[: block.rows[row].picks]
