"""Searches without gradients: rows of the papers' tables, and the floors that a search must beat."""

from archgrad.blackbox.base import BlackboxSearch, Objective, Problem, Proposals
from archgrad.blackbox.evolution import RegularizedEvolution
from archgrad.blackbox.members import SEARCHES
from archgrad.blackbox.random_search import RandomCells, RandomSearch
from archgrad.blackbox.reinforce import Reinforce
from archgrad.blackbox.result import BlackboxResult, Budget
from archgrad.blackbox.run import run_blackbox
from archgrad.blackbox.scores import SCORES
from archgrad.blackbox.tpe import BOHB, TPE
from archgrad.blackbox.zero_cost import ZeroCost

__all__ = [
    "BOHB",
    "SCORES",
    "SEARCHES",
    "TPE",
    "BlackboxResult",
    "BlackboxSearch",
    "Budget",
    "Objective",
    "Problem",
    "Proposals",
    "RandomCells",
    "RandomSearch",
    "RegularizedEvolution",
    "Reinforce",
    "ZeroCost",
    "run_blackbox",
]
