"""The family of searches without gradients, by name."""

from archgrad.blackbox.base import BlackboxSearch
from archgrad.blackbox.evolution import RegularizedEvolution
from archgrad.blackbox.random_search import RandomCells, RandomSearch
from archgrad.blackbox.reinforce import Reinforce
from archgrad.blackbox.tpe import BOHB, TPE
from archgrad.blackbox.zero_cost import ZeroCost
from archgrad.parts.registry import Registry

__all__ = ["SEARCHES"]

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
