"""Published methods, each a few lines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from archgrad.arch_optimizers import Adam
from archgrad.discretizers import Argmax
from archgrad.errors import UserError, unknown
from archgrad.hypergradients import Amended, FirstOrder, Neumann, Unrolled
from archgrad.method import Method
from archgrad.relaxations import Softmax
from archgrad.schedule import Schedule

__all__ = ["RECIPES", "amended", "darts", "darts_second_order", "idarts", "named"]


def darts(order: int = 1) -> Method:
    """DARTS (Liu et al., 2019): softmax, Adam, and the gradient of first or second order.

    >>> darts().arch_optimizer.lr
    0.0003
    """
    if order not in (1, 2):
        raise UserError(f"the order of DARTS is {order!r}; it must be 1 or 2.")
    return Method(
        name="darts" if order == 1 else "darts-2nd",
        relaxation=Softmax(),
        hypergradient=FirstOrder() if order == 1 else Unrolled(products="forward"),
        arch_optimizer=Adam(),
        discretizer=Argmax(),
    )


def darts_second_order() -> Method:
    """DARTS of second order: differentiate through one virtual step of the weights."""
    return darts(order=2)


def idarts(inner_steps: int = 4, terms: int = 2, lr: float | str | None = 0.01) -> Method:
    """Neumann-series implicit gradient after every T weight steps: iDARTS (Zhang et al., 2021).

    >>> idarts().hypergradient.terms
    2
    """
    return replace(
        darts(),
        name="idarts",
        hypergradient=Neumann(terms, lr, products="forward"),
        schedule=Schedule(inner_steps=inner_steps),
    )


def amended(eta: float = 0.1) -> Method:
    """Amended-DARTS (Bi et al., 2019): DARTS with the amending term −η·M·H·∂L2/∂w.

    >>> amended().hypergradient.eta
    0.1
    """
    return replace(darts(), name="amended", hypergradient=Amended(eta, products="forward"))


RECIPES: dict[str, Callable[[], Method]] = {
    "darts": darts,
    "darts-2nd": darts_second_order,
    "idarts": idarts,
    "amended": amended,
}
"""The names on the command line."""


def named(name: str) -> Method:
    """Return a recipe by its name, at its published settings."""
    if name not in RECIPES:
        raise unknown("method", name, RECIPES)
    return RECIPES[name]()
