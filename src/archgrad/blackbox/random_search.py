"""Draw architectures at random: the best of many, or just one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from archgrad.blackbox.base import BlackboxSearch, Objective, Problem, Proposals

__all__ = ["RandomCells", "RandomSearch"]


@dataclass(frozen=True)
class RandomSearch(BlackboxSearch):
    """The best of architectures drawn at random, each by itself (Bergstra & Bengio, 2012)."""

    def proposals(self, problem: Problem) -> Proposals:
        """Draw until the budget ends."""
        draws = problem.stream("draw")
        while True:
            yield problem.draw(draws)


@dataclass(frozen=True)
class RandomCells(BlackboxSearch):
    """One architecture drawn at random, which nothing has measured: the floor of all floors."""

    needs_table: ClassVar[bool] = False

    def proposals(self, problem: Problem) -> Proposals:
        """Draw once."""
        yield problem.draw(problem.stream("draw"))

    def objective(self, problem: Problem) -> Objective:
        """Return the same value for all, at no cost."""
        return Objective("nothing", lambda genotype: 0.0, lambda genotype: 0.0, "nothing was measured")
