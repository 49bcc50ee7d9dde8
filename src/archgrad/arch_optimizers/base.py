"""The family of architecture optimizers: from a gradient to the next α."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import is_dataclass, replace
from typing import ClassVar

from torch import Tensor

from archgrad.autodiff.tensors import Alpha, check_tensors
from archgrad.errors import UserError
from archgrad.parts.fields import check_fields
from archgrad.relaxations.base import Domain

__all__ = ["ArchOptimizer", "ArchState", "check_step"]

ArchState = dict[str, dict[str, Tensor]]
"""The state of an optimizer: quantity → block → tensor."""


def check_step(alpha: Alpha, gradient: Alpha, state: ArchState, *quantities: str) -> None:
    """Raise a UserError unless the gradient has the shape of α, and the state has these quantities of every block."""
    check_tensors("alpha", alpha)
    check_tensors("gradient", gradient, {name: value.shape for name, value in alpha.items()})
    for quantity in quantities:
        if not isinstance(state, Mapping) or set(state.get(quantity, ())) != set(alpha):
            raise UserError(f"state lacks {quantity!r} of the blocks of α; give the state that init or step returned.")


class ArchOptimizer(ABC):
    """(α, gradient, state) → (α, state), without side effects.

    If it never ``moves``, α stays at its start and a search skips its gradient. A ``finite`` optimizer takes no more
    steps than :meth:`init` announced.
    """

    moves: ClassVar[bool] = True
    finite: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_fields(self, "arch_optimizer.{}")

    @property
    @abstractmethod
    def domain(self) -> Domain:
        """The domain of α, the same as the relaxation's: a class attribute or a knob of each member."""

    @abstractmethod
    def init(self, alpha: Alpha, steps: int) -> ArchState:
        """Return the state before the first step of a search that will take ``steps`` of them."""

    def scaled(self, factor: float) -> ArchOptimizer:
        """Return the optimizer with ``factor`` times its learning rate.

        It multiplies the dataclass field ``lr``. An optimizer without that field stays the same, or overrides this.
        """
        rate = getattr(self, "lr", None)
        if not is_dataclass(self) or not isinstance(rate, int | float):
            return self
        try:
            return replace(self, lr=rate * factor)
        except TypeError as error:
            name = type(self).__name__
            raise UserError(
                f"the learning rate of {name} cannot be scaled ({error}); make lr a field of the dataclass, give "
                f"{name} a method scaled(factor), or search with the alpha budget off."
            ) from error

    def drift_factor(self, ratio: float) -> float:
        """Return the factor on the rate that gives the drift (steps × rate) of ``ratio`` times as many steps."""
        return ratio

    @abstractmethod
    def step(self, alpha: Alpha, gradient: Alpha, state: ArchState) -> tuple[Alpha, ArchState]:
        """Return the next parameters and the next state."""
