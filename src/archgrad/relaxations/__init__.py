"""Relaxations: from architecture parameters α to the mixture of a supernet."""

from collections.abc import Callable

from archgrad.errors import chosen
from archgrad.relaxations.base import Domain, Relaxation, Relaxed, expand_to_cells
from archgrad.relaxations.concrete import Concrete
from archgrad.relaxations.dirichlet import Dirichlet, concentration
from archgrad.relaxations.gumbel_hard import GumbelHard
from archgrad.relaxations.sampled import Sampled
from archgrad.relaxations.simplex import Simplex
from archgrad.relaxations.softmax import Softmax
from archgrad.relaxations.uniform import Uniform

__all__ = [
    "RELAXATIONS",
    "Concrete",
    "Dirichlet",
    "Domain",
    "GumbelHard",
    "Relaxation",
    "Relaxed",
    "Sampled",
    "Simplex",
    "Softmax",
    "Uniform",
    "concentration",
    "expand_to_cells",
    "named",
]

RELAXATIONS: dict[str, Callable[[], Relaxation]] = {
    "softmax": Softmax,
    "simplex": Simplex,
    "gumbel-hard": GumbelHard,
    "concrete": Concrete,
    "dirichlet": Dirichlet,
    "uniform": Uniform,
}
"""The names on the command line."""


def named(name: str) -> Relaxation:
    """Return a relaxation by its name.

    >>> named("gumbel-hard").tau
    (10.0, 0.1)
    """
    return chosen("relaxation", name, RELAXATIONS)()
