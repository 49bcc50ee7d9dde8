"""Searches without gradients: rows of the papers' tables, and the floors that a search must beat."""

from archgrad.blackbox.base import BlackboxSearch, Objective, Problem, Proposals
from archgrad.blackbox.evolution import RegularizedEvolution
from archgrad.blackbox.random_search import RandomCells, RandomSearch
from archgrad.blackbox.reinforce import Reinforce
from archgrad.blackbox.run import SEARCHES, BlackboxResult, Budget, resume_blackbox, run_blackbox
from archgrad.blackbox.tpe import BOHB, TPE
from archgrad.blackbox.zero_cost import SCORES, ZeroCost

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
    "resume_blackbox",
    "run_blackbox",
]
