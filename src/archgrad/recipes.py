"""Published methods, each a few lines."""

from __future__ import annotations

from collections.abc import Callable

from archgrad.arch_optimizers import Adam
from archgrad.discretizers import Argmax
from archgrad.errors import unknown
from archgrad.hypergradients import FirstOrder
from archgrad.method import Method
from archgrad.relaxations import Softmax

__all__ = ["RECIPES", "darts", "named"]


def darts() -> Method:
    """First-order DARTS (Liu et al., 2019): softmax, ∂L2/∂α, Adam.

    >>> darts().arch_optimizer.lr
    0.0003
    """
    return Method(
        name="darts",
        relaxation=Softmax(),
        hypergradient=FirstOrder(),
        arch_optimizer=Adam(),
        discretizer=Argmax(),
    )


RECIPES: dict[str, Callable[[], Method]] = {"darts": darts}
"""The names on the command line."""


def named(name: str) -> Method:
    """Return a recipe by its name, at its published settings."""
    if name not in RECIPES:
        raise unknown("method", name, RECIPES)
    return RECIPES[name]()
