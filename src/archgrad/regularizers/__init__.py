"""Terms added to a step of the search."""

from collections.abc import Callable

from archgrad.errors import chosen
from archgrad.regularizers.base import OuterStep, PerturbStep, Regularizer, WeightStep
from archgrad.regularizers.dirichlet_kl import DirichletKL
from archgrad.regularizers.entropy import EntropyTerm

__all__ = [
    "REGULARIZERS",
    "DirichletKL",
    "EntropyTerm",
    "OuterStep",
    "PerturbStep",
    "Regularizer",
    "WeightStep",
    "name_of",
    "named",
]

REGULARIZERS: dict[str, Callable[[], Regularizer]] = {"entropy": EntropyTerm, "dirichlet-kl": DirichletKL}
"""The names on the command line."""


def named(name: str) -> Regularizer:
    """Return a regulariser by its name.

    >>> named("dirichlet-kl").weight
    0.001
    """
    return chosen("regulariser", name, REGULARIZERS)()


def name_of(regularizer: Regularizer) -> str | None:
    """Return the name of a regulariser, None for one of the user's own.

    >>> name_of(DirichletKL(0.5))
    'dirichlet-kl'
    """
    return next((name for name, kind in REGULARIZERS.items() if type(regularizer) is kind), None)
