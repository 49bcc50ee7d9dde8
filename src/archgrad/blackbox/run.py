"""Run a search without gradients within a budget: its result, and the run directory that it writes."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from archgrad.blackbox.base import BlackboxSearch, Objective, Problem, Proposals
from archgrad.blackbox.evolution import RegularizedEvolution
from archgrad.blackbox.random_search import RandomCells, RandomSearch
from archgrad.blackbox.reinforce import Reinforce
from archgrad.blackbox.tpe import BOHB, TPE
from archgrad.blackbox.zero_cost import ZeroCost
from archgrad.callbacks import Measures, Record
from archgrad.config import SearchConfig, read_run_config
from archgrad.config.resolve import space_of
from archgrad.config.toml import config_to_toml
from archgrad.data import Data
from archgrad.errors import UserError
from archgrad.loop.checkpoint import RunIdentity
from archgrad.loop.folder import RunFolder, read_records, summary_of
from archgrad.parts.fields import Count, Positive, check_fields, checked
from archgrad.parts.knobs import knobs_of, with_settings, without_none
from archgrad.parts.registry import Registry, class_path
from archgrad.spaces import SPACES, Genotype, SearchSpace
from archgrad.system.files import read_text
from archgrad.tables import datasets, oracles_for

__all__ = ["SEARCHES", "BlackboxResult", "Budget", "resume_blackbox", "run_blackbox"]

SEARCHES = Registry[BlackboxSearch](
    "search without gradients",
    BlackboxSearch,
    {
        "random-search": RandomSearch,
        "regularized-evolution": RegularizedEvolution,
        "reinforce": Reinforce,
        "tpe": TPE,
        "bohb": BOHB,
        "zero-cost": ZeroCost,
        "random-cells": RandomCells,
    },
)
"""The names on the command line."""

_PUBLISHED_SECONDS = 12_000.0
"""The budget of the searches that NAS-Bench-201 publishes, in simulated seconds."""


@dataclass(frozen=True)
class Budget:
    """How much a search may use: ``queries`` of architectures, simulated ``seconds``, or both; None is no limit."""

    queries: Count | None = None
    seconds: Positive | None = _PUBLISHED_SECONDS

    def __post_init__(self) -> None:
        check_fields(self, "{}")

    def allows(self, queries: int, seconds: float) -> bool:
        """Tell whether so many queries and seconds are within the budget.

        >>> Budget(queries=3).allows(3, 12_000.0), Budget(queries=3).allows(4, 0.0), Budget().allows(9, 12_000.1)
        (True, False, False)
        """
        return (self.queries is None or queries <= self.queries) and (self.seconds is None or seconds <= self.seconds)


@dataclass(frozen=True, eq=False)
class BlackboxResult:
    """The best architecture that a search without gradients queried, and its history.

    ``history`` has one record per query, with the keys of a search by gradients where they mean the same: ``epoch`` is
    the number of the query, ``genotype`` the best architecture so far, ``oracle_*`` its accuracy in the table.
    ``queries`` and ``simulated_seconds`` are what is used so far, ``best_*`` and ``queried_*`` the best value and the
    last. ``source`` says where values and seconds come from; ``seconds`` is the real time of the search.
    """

    genotype: Genotype
    history: tuple[Record, ...] = field(repr=False)
    search: BlackboxSearch
    name: str
    space: SearchSpace
    data: str
    seed: int
    budget: Budget
    source: str
    seconds: float
    oracle: str = "auto"
    data_dir: str | None = None

    @property
    def queries(self) -> int:
        """The number of queries."""
        return len(self.history)

    @property
    def simulated_seconds(self) -> float:
        """The simulated time of all queries together."""
        return float(self.history[-1]["simulated_seconds"])

    @checked
    def save(self, folder: str | Path) -> Path:
        """Write a run directory like that of a search by gradients, without checkpoints; return its path.

        It has ``run.json``, ``config.toml``, ``metrics.jsonl``, ``genotype.json`` and ``summary.json``, each written as
        a whole.
        """
        place = Path(folder).expanduser()
        parts = {"method": self.search, "space": self.space, "budget": self.budget, "data": self.data}
        files = {"config.toml": config_to_toml(self._config)}
        run = RunFolder(place, RunIdentity.of(seed=self.seed, **parts), files, run_kind="blackbox")
        with run.opened(resume=False):
            run.show(self.history, self.genotype)
            used = {"queries": self.queries, "simulated_seconds": self.simulated_seconds, "source": self.source}
            found = self.history, self.genotype, self.queries, self.seconds
            run.conclude(summary_of(run.identity, *found, used))
        return place

    @property
    def _config(self) -> SearchConfig:
        """The configuration in names: knobs of the search and the budget stand under the paths of their classes."""
        sizes: dict[str, Any] = {"channels": self.space.channels, "cells": getattr(self.space, self.space.depth_knob)}
        parts = {class_path(type(self.search)): self.search, class_path(Budget): self.budget, "space": self.space}
        knobs = {
            f"{prefix}.{knob}": without_none(value)
            for prefix, part in parts.items()
            for knob, value in knobs_of(part).items()
            if not (part is self.space and knob in ("channels", self.space.depth_knob))
        }
        return SearchConfig(
            space=SPACES.name_of(self.space), method=self.name, data=self.data, data_dir=self.data_dir,
            epochs=self.queries, seed=self.seed, oracle=self.oracle, settings=knobs, **sizes,
        )  # fmt: skip


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
    budget = Budget(queries, _PUBLISHED_SECONDS if queries is None and seconds is None else seconds)
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


@checked
def resume_blackbox(folder: str | Path) -> BlackboxResult:
    """Read the result of a search without gradients; it writes its run directory when it has ended."""
    home = Path(folder).expanduser()
    config = read_run_config(home)
    member = SEARCHES.create(str(config.method))
    member = with_settings(member, config.settings_of(class_path(type(member))), "blackbox")
    budget = with_settings(Budget(), config.settings_of(class_path(Budget)), "budget")
    history = tuple(read_records(home))
    try:
        summary = json.loads(read_text(home / "summary.json", "summary of the run"))
        source, seconds = str(summary["source"]), float(summary["seconds"])
        found = Genotype.parse(history[-1]["genotype"])
    except (ValueError, KeyError, TypeError, IndexError, RecursionError):
        raise UserError(f"{home} was not written to its end; delete it, and run the search again.") from None
    return BlackboxResult(
        found, history, member, str(config.method), space_of(config), str(config.data), config.seed, budget,
        source, seconds, config.oracle, config.data_dir,
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
    searched = problem.data_name if problem.data_name in datasets() else problem.data
    chosen = SearchConfig(data=searched, oracle=wanted).oracle_datasets(datasets())
    lookups, _ = oracles_for(problem.space, chosen)
    return lambda genotype: {name: value for lookup in lookups for name, value in lookup.measures_of(genotype).items()}
