"""The result of a search without gradients, and the run directory that it writes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from archgrad.blackbox.base import BlackboxSearch
from archgrad.callbacks import Record
from archgrad.config import SearchConfig
from archgrad.config.toml import config_to_toml
from archgrad.loop.checkpoint import Identity
from archgrad.loop.folder import RunFolder, summary_of
from archgrad.parts.fields import Count, Positive, check_fields, checked
from archgrad.parts.knobs import knobs_of, without_none
from archgrad.parts.registry import class_path
from archgrad.spaces import SPACES, Genotype, SearchSpace

__all__ = ["PUBLISHED_SECONDS", "BlackboxResult", "Budget"]

PUBLISHED_SECONDS = 12_000.0
"""The budget of the searches that NAS-Bench-201 publishes, in simulated seconds."""


@dataclass(frozen=True)
class Budget:
    """How much a search may use: ``queries`` of architectures, simulated ``seconds``, or both; None is no limit."""

    queries: Count | None = None
    seconds: Positive | None = PUBLISHED_SECONDS

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

        It has ``config.toml``, ``metrics.jsonl``, ``genotype.json`` and ``summary.json``, each written as a whole.
        """
        place = Path(folder).expanduser()
        parts = {"method": self.search, "space": self.space, "budget": self.budget, "data": self.data}
        files = {"config.toml": config_to_toml(self._config)}
        run = RunFolder(place, Identity.of(seed=self.seed, **parts), files, run_kind="blackbox")
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
        knobs = {
            f"{prefix}.{knob}": without_none(value)
            for prefix, part in (
                (class_path(type(self.search)), self.search),
                (class_path(Budget), self.budget),
                ("space", self.space),
            )
            for knob, value in knobs_of(part).items()
            if not (part is self.space and knob in ("channels", self.space.depth_knob))
        }
        return SearchConfig(
            space=SPACES.name_of(self.space), method=self.name, data=self.data, data_dir=self.data_dir,
            epochs=self.queries, seed=self.seed, oracle=self.oracle, settings=knobs, **sizes,
        )  # fmt: skip
