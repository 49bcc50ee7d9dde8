"""Run a search without gradients within a budget."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from archgrad.blackbox.base import BlackboxSearch, Objective, Problem, Proposals
from archgrad.blackbox.members import SEARCHES
from archgrad.blackbox.result import PUBLISHED_SECONDS, BlackboxResult, Budget
from archgrad.callbacks import Measures, Record
from archgrad.config import SearchConfig
from archgrad.data import Data
from archgrad.errors import UserError
from archgrad.parts.fields import checked
from archgrad.parts.knobs import with_settings
from archgrad.spaces import SPACES, Genotype, SearchSpace
from archgrad.tables import datasets, tables_for

__all__ = ["run_blackbox"]


@checked
def run_blackbox(
    search: str | BlackboxSearch,
    space: str | SearchSpace = "nasbench201",
    data: str | Data = "cifar10",
    *,
    seed: int = 0,
    queries: int | None = None,
    seconds: float | None = None,
    settings: Mapping[str, Any] | None = None,
    oracle: str = "auto",
    data_dir: str | None = None,
) -> BlackboxResult:
    """Search without gradients, and return the best architecture that it queried.

    ``search`` is a member of the family or its name, with ``settings`` of its knobs. Every query of an architecture
    costs one query and its simulated training time; a query that would exceed ``queries`` or ``seconds`` ends the
    search. With neither of them the budget is the published one, 12,000 simulated seconds. ``oracle`` names the data
    sets whose table accuracies are recorded, by default that of ``data``. The same seed gives the same search.
    """
    member = SEARCHES.create(search) if isinstance(search, str) else search
    member = with_settings(member, settings or {}, "blackbox")
    own = SPACES.create(space) if isinstance(space, str) else space
    member.check(own)
    budget = Budget(queries, PUBLISHED_SECONDS if queries is None and seconds is None else seconds)
    problem, begin = Problem(own, data, seed, data_dir), time.perf_counter()
    objective = member.objective(problem)
    history = list(_records(member.proposals(problem), objective, budget, _oracle(problem, oracle)))
    if not history:
        raise UserError(
            f"the budget of {budget.seconds:g} simulated seconds ends before the first training; give more seconds."
        )
    return BlackboxResult(
        Genotype.parse(history[-1]["genotype"]), tuple(history), member, SEARCHES.name_of(member), own,
        problem.data_name, seed, budget, objective.source, time.perf_counter() - begin, oracle, data_dir,
    )  # fmt: skip


def _records(
    proposals: Proposals, objective: Objective, budget: Budget, look_up: Callable[[Genotype], Measures]
) -> Iterator[Record]:
    """Yield the record of each query until the budget or the search ends; the first of the best stays the best."""
    spent, best = 0.0, -math.inf
    known: dict[str, float | str] = {}
    genotype, number = next(proposals, None), 1
    while genotype is not None:
        spent += objective.seconds(genotype)
        if not budget.allows(number, spent):
            return
        value = objective.value(genotype)
        if not known or value > best:
            best, known = value, {"genotype": str(genotype), **look_up(genotype)}
        yield {
            "epoch": number, "genotype": known["genotype"], "queries": number, "simulated_seconds": round(spent, 3),
            f"best_{objective.measure}": best, f"queried_{objective.measure}": value, **known,
        }  # fmt: skip
        number += 1
        try:
            genotype = proposals.send(value)
        except StopIteration:
            return


def _oracle(problem: Problem, wanted: str) -> Callable[[Genotype], Measures]:
    """Return what looks up an architecture in the tables of the space; nothing where there is none."""
    chosen = SearchConfig(data=problem.data_name, oracle=wanted).oracle_datasets(datasets())
    oracles = [table.oracle(problem.space, chosen) for table in tables_for(problem.space.name)]
    lookups = [lookup for oracle in oracles if oracle is not None for lookup in oracle.callbacks]
    return lambda genotype: {name: value for lookup in lookups for name, value in lookup.measures_of(genotype).items()}
