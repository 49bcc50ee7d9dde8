"""Mirror descent on the simplex."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from archgrad.arch_optimizers.base import ArchOptimizer, ArchState, check_step
from archgrad.arch_optimizers.geometry import GEOMETRIES
from archgrad.autodiff.tensors import Alpha
from archgrad.errors import UserError
from archgrad.parts.fields import NonNegative, Positive, checked
from archgrad.relaxations.base import Domain
from archgrad.system.devices import widened

__all__ = ["MirrorDescent"]


@dataclass(frozen=True)
class MirrorDescent(ArchOptimizer):
    """θ ← argmin over the simplex of lr·⟨g, u⟩ + D_φ(u‖θ), row by row (GAEA, Eq. 6).

    ``geometry`` chooses φ: "entropy" is exponentiated gradient, "euclidean" is projected gradient descent. Entries that
    are 0 at the start are not choices and stay 0. All others are raised to at least ``floor``, then the row is
    normalized again: entropy steps cannot leave 0. None is the geometry's own floor, 1e-5 for entropy. Euclidean steps
    can leave 0 and have no floor.
    """

    domain: ClassVar[Domain] = "simplex"

    geometry: Literal["entropy", "euclidean"] = "entropy"
    lr: Positive = 0.1
    floor: NonNegative | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.floor and not GEOMETRIES[self.geometry].floor:
            raise UserError(
                f"arch_optimizer.floor is {self.floor}, but {self.geometry} steps need no floor; leave it out, or set "
                f"geometry=entropy."
            )

    @checked
    def init(self, alpha: Alpha, steps: int) -> ArchState:
        """Record the real choices: those above 0."""
        support = {name: value > 0 for name, value in alpha.items()}
        most = max((int(real.sum(-1).max()) for real in support.values()), default=0)
        if self._floor * most >= 1:
            raise UserError(
                f"arch_optimizer.floor is {self._floor}, which keeps a row of {most} choices uniform; it must be below "
                f"{1 / most:.3g}."
            )
        return {"support": support}

    def step(self, alpha: Alpha, gradient: Alpha, state: ArchState) -> tuple[Alpha, ArchState]:
        """Take one proximal step."""
        check_step(alpha, gradient, state, "support")
        geometry, support = GEOMETRIES[self.geometry], state["support"]
        moved = {
            name: geometry.step(value, self.lr * widened(gradient[name]), support[name])
            for name, value in alpha.items()
        }
        return Alpha({name: self._lifted(value, support[name]) for name, value in moved.items()}), state

    @property
    def _floor(self) -> float:
        return GEOMETRIES[self.geometry].floor if self.floor is None else self.floor

    def _lifted(self, theta: Tensor, support: Tensor) -> Tensor:
        if not self._floor:
            return theta
        lifted = theta.clamp_min(self._floor) * support
        return lifted / lifted.sum(-1, keepdim=True)
