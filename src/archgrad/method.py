"""A method: relaxation × hypergradient × architecture optimiser × regularisers × discretiser."""

from __future__ import annotations

from dataclasses import dataclass, field

from archgrad.arch_optimizers import ArchOptimizer
from archgrad.discretizers import Discretizer
from archgrad.errors import UserError
from archgrad.hypergradients import Hypergradient
from archgrad.regularizers import Regularizer
from archgrad.relaxations import Relaxation
from archgrad.schedule import Schedule
from archgrad.spaces import SearchSpace

__all__ = ["Method"]


@dataclass(frozen=True, kw_only=True)
class Method:
    """A frozen bundle of five parts, any of which may be exchanged with :func:`dataclasses.replace`.

    ``schedule`` says how often the architecture moves.
    """

    relaxation: Relaxation
    hypergradient: Hypergradient
    arch_optimizer: ArchOptimizer
    discretizer: Discretizer
    regularizers: tuple[Regularizer, ...] = ()
    schedule: Schedule = field(default_factory=Schedule)
    name: str = "custom"

    def __post_init__(self) -> None:
        if self.relaxation.domain != self.arch_optimizer.domain:
            raise UserError(
                f"{type(self.relaxation).__name__} keeps architecture parameters in the {self.relaxation.domain!r} "
                f"domain, but {type(self.arch_optimizer).__name__} moves them in the {self.arch_optimizer.domain!r} "
                f"domain; choose a relaxation and an optimiser of one domain."
            )

    def check(self, space: SearchSpace) -> None:
        """Raise a UserError, before anything is trained, if the method cannot search this space."""
        self.discretizer.check(space)
