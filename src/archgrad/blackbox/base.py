"""The base class of searches without gradients: they propose architectures and are told how good each one is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import torch

from archgrad.autodiff.tensors import Probabilities
from archgrad.data import Data, load
from archgrad.data.catalog import absolute_name
from archgrad.discretizers.best_sampled import sample_genotype
from archgrad.errors import UserError
from archgrad.parts.fields import check_fields
from archgrad.spaces import DecisionBlock, Genotype, SearchSpace
from archgrad.system import random_streams
from archgrad.tables import datasets, open_short_trainings, tables_for

__all__ = ["BlackboxSearch", "Objective", "Problem", "Proposals", "check_independent_rows", "check_short_trainings"]

Proposals = Generator[Genotype, float, None]
"""Yields architectures, and is sent the value of each; it may end by itself."""


@dataclass(frozen=True, eq=False)
class Problem:
    """What a search without gradients may use: the space, the data, and named random streams of its seed."""

    space: SearchSpace
    data: str | Data
    seed: int = 0
    data_dir: str | None = None

    @cached_property
    def blocks(self) -> tuple[DecisionBlock, ...]:
        """The decision blocks of the space."""
        return self.space.blocks

    @property
    def data_name(self) -> str:
        """The name of the data in tables, or by which they can be loaded again, or that of the object."""
        if isinstance(self.data, str):
            return self.data
        name, origin = self.data.name, self.data.origin
        return name if origin is None or name in datasets() else absolute_name(origin.spec)

    def images(self) -> Data:
        """Return the data, loaded if it was named."""
        return load(self.data, data_dir=self.data_dir) if isinstance(self.data, str) else self.data

    def stream(self, name: str) -> torch.Generator:
        """Return the random stream of this name."""
        return random_streams.generator(self.seed, "blackbox", name)

    @cached_property
    def even(self) -> Probabilities:
        """The probabilities at which every choice of a row is equally likely."""
        return Probabilities({block.name: block.mask / block.mask.sum(-1, keepdim=True) for block in self.blocks})

    def draw(self, generator: torch.Generator) -> Genotype:
        """Draw an architecture: every choice of a row, and every edge, is equally likely."""
        return sample_genotype(self.space, self.even, generator)


class Objective(NamedTuple):
    """What a search maximizes, under the name ``measure``, and the simulated ``seconds`` that one value costs."""

    measure: str
    value: Callable[[Genotype], float]
    seconds: Callable[[Genotype], float]
    source: str


class BlackboxSearch(ABC):
    """A search that sees nothing of an architecture but its value. Members are frozen dataclasses of their knobs."""

    needs_table: ClassVar[bool] = True
    """Whether its queries are short trainings, which only a table has."""

    def __post_init__(self) -> None:
        check_fields(self, "blackbox.{}")

    def check(self, space: SearchSpace) -> None:
        """Raise a UserError, before any query, if it cannot search this space."""
        return

    @abstractmethod
    def proposals(self, problem: Problem) -> Proposals:
        """Yield the architectures to query; every ``yield`` returns the value of the one before."""

    def objective(self, problem: Problem) -> Objective:
        """Return what it maximizes: by default the validation accuracy after a short training, from a table."""
        return short_training(problem)


def check_short_trainings(space: str, data: str) -> None:
    """Raise a UserError unless a table has short trainings of a space on these data; no file is read."""
    known = [name for table in tables_for(space) if table.title == "NAS-Bench-201" for name in table.datasets]
    if data not in known:
        raise UserError(
            f"no table has short trainings of the space {space!r} on {data!r}; search nasbench201 on cifar10, cifar100 "
            f"or imagenet16-120, or by zero-cost, which needs no table."
        )


def short_training(problem: Problem) -> Objective:
    """Return the validation accuracy after 12 epochs on NAS-Bench-201, with simulated training times."""
    check_short_trainings(problem.space.name, problem.data_name)
    table = open_short_trainings(problem.data_name)
    return Objective(table.label, table.accuracy, table.seconds, f"{table.source}; seconds are {table.clock}")


def check_independent_rows(search: str, space: SearchSpace) -> None:
    """Raise a UserError unless an architecture of the space takes one choice in every row."""
    if any(block.keep is not None or {row.picks for row in block.rows} != {1} for block in space.blocks):
        raise UserError(
            f"{search} decides every row by itself, but the space {space.name!r} keeps some of its edges or takes "
            f"several choices in a row; use random-search or regularized-evolution there."
        )
