"""Regularized evolution: the oldest architecture dies, whatever its value."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch

from archgrad.blackbox.base import BlackboxSearch, Problem, Proposals
from archgrad.parts.fields import Count
from archgrad.spaces import Genotype
from archgrad.spaces.choice_costs import exchanges, selected_choices

__all__ = ["RegularizedEvolution"]

Item = TypeVar("Item")


@dataclass(frozen=True)
class RegularizedEvolution(BlackboxSearch):
    """Aging evolution (Real et al., 2019, Algorithm 1): the best of a tournament has a child, and the oldest dies.

    The first ``population`` architectures are random. A tournament draws ``sample`` of the population with replacement.
    A child differs from its parent in one choice, each such exchange being equally likely. The sizes are those of the
    published code for NAS-Bench-201.
    """

    population: Count = 10
    sample: Count = 3

    def proposals(self, problem: Problem) -> Proposals:
        """Draw the first population, then mutate winners of tournaments."""
        draws = problem.stream("draw")
        alive: deque[tuple[Genotype, float]] = deque(maxlen=self.population)
        for _ in range(self.population):
            genotype = problem.draw(draws)
            alive.append((genotype, (yield genotype)))
        while True:
            parent, _ = max((_pick(alive, draws) for _ in range(self.sample)), key=lambda one: one[1])
            child = mutated(problem, parent, draws)
            alive.append((child, (yield child)))


def mutated(problem: Problem, parent: Genotype, generator: torch.Generator) -> Genotype:
    """Return an architecture that differs from its parent in one choice; the parent if the space has no other."""
    others = [other for *_, other in exchanges(problem.blocks, selected_choices(problem.blocks, parent))]
    return problem.space.genotype(_pick(others, generator)) if others else parent


def _pick(items: Sequence[Item], generator: torch.Generator) -> Item:
    return items[int(torch.randint(len(items), (), generator=generator))]
