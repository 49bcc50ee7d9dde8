"""The tree-structured Parzen estimator of Optuna, and BOHB on it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import cycle
from typing import Annotated, Any

from archgrad.blackbox.base import BlackboxSearch, Problem, Proposals, check_independent_rows
from archgrad.callbacks.sinks import import_tool
from archgrad.parts.fields import Count, Range
from archgrad.spaces import Genotype, SearchSpace
from archgrad.system import random_streams
from archgrad.system.warn_once import silenced

__all__ = ["BOHB", "TPE"]


@dataclass(frozen=True)
class TPE(BlackboxSearch):
    """Tree-structured Parzen estimator (Bergstra et al., 2011), by ``optuna.samplers.TPESampler``.

    After ``startup`` random architectures, each next one is the best of ``candidates`` draws from the density of good
    architectures, by its ratio to the density of the others. Needs ``pip install 'archgrad[blackbox]'``.
    """

    startup: Count = 10
    candidates: Count = 24

    def check(self, space: SearchSpace) -> None:
        """Reject spaces in which rows depend on each other, and a missing package."""
        check_independent_rows("tpe", space)
        import_tool("optuna", "blackbox")

    def proposals(self, problem: Problem) -> Proposals:
        """Ask the sampler, and tell it each value."""
        sampler = _Sampler(problem, self.startup, self.candidates)
        while True:
            trial, genotype = sampler.ask()
            sampler.tell(trial, (yield genotype))


@dataclass(frozen=True)
class BOHB(BlackboxSearch):
    """Hyperband whose architectures come from a Parzen estimator (Falkner et al., 2018), as NAS-Bench-201 ran it.

    Brackets of successive halving follow each other: with ``eta`` 3 and three ``rungs``, 9 → 3 → 1, 3 → 1 and 3
    architectures. The best of a rung are trained again on the next. Tables have one short training of each cell,
    so all rungs read the accuracy after 12 epochs and each costs a whole training. The published code does the same,
    whatever the budget of a rung. So Hyperband saves nothing here. Needs ``pip install 'archgrad[blackbox]'``.

    ``candidates`` is the published number of samples, 4. The estimator is Optuna's, not the one of the published code.
    """

    eta: Annotated[int, Range(2, 10)] = 3
    rungs: Annotated[int, Range(1, 10)] = 3
    startup: Count = 10
    candidates: Count = 4

    def check(self, space: SearchSpace) -> None:
        """Reject spaces in which rows depend on each other, and a missing package."""
        check_independent_rows("bohb", space)
        import_tool("optuna", "blackbox")

    def proposals(self, problem: Problem) -> Proposals:
        """Run bracket after bracket."""
        sampler = _Sampler(problem, self.startup, self.candidates)
        for sizes in cycle(self.brackets()):
            rung: list[tuple[float, Genotype]] = []
            for _ in range(sizes[0]):
                trial, genotype = sampler.ask()
                value = yield genotype
                sampler.tell(trial, value)
                rung.append((value, genotype))
            for size in sizes[1:]:
                best = sorted(rung, key=lambda one: -one[0])[:size]
                rung = []
                for _, genotype in best:
                    value = yield genotype
                    rung.append((value, genotype))

    def brackets(self) -> list[tuple[int, ...]]:
        """Return the sizes of the rungs of each bracket (Li et al., 2018, as in the published code of BOHB).

        >>> BOHB().brackets()
        [(9, 3, 1), (3, 1), (3,)]
        """
        return [
            tuple(max(self.rungs // (last + 1) * self.eta ** (last - rung), 1) for rung in range(last + 1))
            for last in reversed(range(self.rungs))
        ]


class _Sampler:
    """A study of Optuna with a categorical parameter for every row."""

    def __init__(self, problem: Problem, startup: int, candidates: int) -> None:
        optuna = import_tool("optuna", "blackbox")
        seed = random_streams.seed_of(problem.seed, "blackbox", "optuna") % 2**32
        sampler = optuna.samplers.TPESampler(n_startup_trials=startup, n_ei_candidates=candidates, seed=seed)
        with silenced("optuna"):
            self.study = optuna.create_study(sampler=sampler, direction="maximize")
        self.problem = problem

    def ask(self) -> tuple[Any, Genotype]:
        """Return a new trial and its architecture."""
        trial = self.study.ask()
        chosen = {
            block.name: [
                (index, row.choices.index(trial.suggest_categorical(f"{block.name} {row.name}", allowed)))
                for index, row in enumerate(block.rows)
                if (allowed := [choice for choice in row.choices if choice not in block.excluded])
            ]
            for block in self.problem.blocks
        }
        return trial, self.problem.space.genotype(chosen)

    def tell(self, trial: Any, value: float) -> None:
        """Tell the study the value of a trial."""
        self.study.tell(trial, value)
