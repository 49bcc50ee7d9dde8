"""Relaxations: from architecture parameters α to the mixture of a supernet."""

from archgrad.parts.registry import Registry
from archgrad.relaxations.base import Domain, Relaxation, Relaxed, expand_to_cells
from archgrad.relaxations.concrete import Concrete
from archgrad.relaxations.decided_rows import DecidedRows
from archgrad.relaxations.dirichlet import Dirichlet, concentration
from archgrad.relaxations.gumbel_hard import GumbelHard
from archgrad.relaxations.log_probability import LogProbability
from archgrad.relaxations.reinmax import ReinMax
from archgrad.relaxations.sampled import Sampled
from archgrad.relaxations.sigmoid import Sigmoid
from archgrad.relaxations.simplex import Simplex
from archgrad.relaxations.softmax import Softmax
from archgrad.relaxations.uniform import Uniform

__all__ = [
    "RELAXATIONS",
    "Concrete",
    "DecidedRows",
    "Dirichlet",
    "Domain",
    "GumbelHard",
    "LogProbability",
    "ReinMax",
    "Relaxation",
    "Relaxed",
    "Sampled",
    "Sigmoid",
    "Simplex",
    "Softmax",
    "Uniform",
    "concentration",
    "expand_to_cells",
]

RELAXATIONS = Registry[Relaxation](
    "relaxation",
    Relaxation,
    {
        "softmax": Softmax,
        "sigmoid": Sigmoid,
        "simplex": Simplex,
        "gumbel-hard": GumbelHard,
        "reinmax": ReinMax,
        "log-probability": LogProbability,
        "concrete": Concrete,
        "dirichlet": Dirichlet,
        "uniform": Uniform,
    },
)
"""The names on the command line."""
