"""Evolve architectures with the shared weights, and keep the best: the second step of SPOS."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

import torch

from archgrad.autodiff.tensors import Probabilities
from archgrad.discretizers.argmax import DerivedOnce
from archgrad.discretizers.base import (
    SupernetEvaluation,
    measurer,
    options_with,
)
from archgrad.discretizers.best_sampled import sample_genotype
from archgrad.parts.fields import Count, Probability, Range
from archgrad.spaces import CellGenotype, Decision, Genotype, SearchSpace

__all__ = ["Evolved"]

Genes = dict[tuple[str, int], tuple[Decision, ...]]
"""The decisions of each node of each block: what a child takes from one parent as a whole."""


@dataclass(frozen=True)
class Evolved(DerivedOnce):
    """The best architecture of an evolution, measured with the shared weights (SPOS; Guo et al., 2020, Algorithm 1).

    The first ``population`` is drawn from the probabilities. In each further round the ``parents`` best architectures
    so far have children: half of the population by crossover, each node from one of two parents, and half by mutation,
    each node drawn anew with chance ``mutation``. All are measured on the same ``batches`` batches, each once; the
    first one wins a tie. ``rounds`` 1 is random search.
    """

    population: Annotated[int, Range(2, 10_000)] = 50
    rounds: Annotated[int, Range(1, 10_000)] = 20
    parents: Count = 10
    mutation: Probability = 0.1
    batches: Count = 1

    def select(
        self, space: SearchSpace, probabilities: Probabilities, evaluation: SupernetEvaluation | None = None
    ) -> Genotype:
        """Draw, then breed and measure, round by round."""
        supernet, options = measurer(self, space, probabilities, evaluation), options_with(space, probabilities)
        stream = supernet.generator
        scores: dict[Genotype, float] = {}

        def draw() -> Genotype:
            return sample_genotype(space, probabilities, stream)

        found = [draw() for _ in range(self.population)]
        for number in range(1, self.rounds + 1):
            for one in found:
                if one not in scores:
                    scores[one] = supernet.mean_score(space.one_hot(one, options), self.batches)
            best = sorted(scores, key=lambda one: -scores[one])[: self.parents]
            supernet.report(f"round {number}: {best[0]}", number, self.rounds)
            found = self._children(space, best, draw, stream)
        return best[0]

    def _children(
        self, space: SearchSpace, best: Sequence[Genotype], draw: Callable[[], Genotype], stream: torch.Generator
    ) -> list[Genotype]:
        def parent() -> Genotype:
            return best[int(torch.randint(len(best), (), generator=stream))]

        crossed = self.population // 2
        pairs = [(parent(), parent(), 0.5) for _ in range(crossed)]
        pairs += [(parent(), draw(), self.mutation) for _ in range(self.population - crossed)]
        return [_mixed(space, *pair, stream) for pair in pairs]


def _mixed(space: SearchSpace, one: Genotype, other: Genotype, chance: float, stream: torch.Generator) -> Genotype:
    """Return the first architecture with each node from the second with this chance."""
    own, new = _genes(one), _genes(other)
    drawn = torch.rand(len(own), generator=stream).tolist()
    genes = {place: new[place] if luck < chance else own[place] for place, luck in zip(own, drawn, strict=True)}
    return Genotype.of(
        {
            block.name: CellGenotype(
                tuple(decision for target in block.targets for decision in genes[block.name, target]), block.concat
            )
            for block in space.blocks
        }
    )


def _genes(genotype: Genotype) -> Genes:
    genes: Genes = {}
    for name, cell in genotype.blocks:
        for decision in cell:
            place = name, decision.target
            genes[place] = (*genes.get(place, ()), decision)
    return genes
