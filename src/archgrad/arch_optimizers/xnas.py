"""XNAS: expert advice with wipe-out."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import torch
from torch import Tensor

from archgrad.arch_optimizers.base import ArchOptimizer, ArchState, check_step
from archgrad.autodiff.tensors import Alpha
from archgrad.errors import UserError
from archgrad.parts.fields import Positive, Range, checked
from archgrad.relaxations.base import Domain
from archgrad.system.devices import widened

__all__ = ["XNAS"]


@dataclass(frozen=True)
class XNAS(ArchOptimizer):
    """v ← v ⊙ exp(−lr·clip(g, ±bound)), θ = v / Σv, without the choices that can no longer win (Nayman et al., 2019).

    One clipped step changes the ratio of two weights by at most exp(2·lr·bound). So after step t of T, a choice with v
    < max v · exp(−2·lr·bound·(T−t)) can no longer become the best; ``wipe_out`` removes it for good, and after the last
    step only the best is left. ``lr`` None is c·√(2·ln k / (T·bound²)) for a row of k choices, which has the optimal
    regret bound at c = ``scale`` = 1. The state holds log v in float64, because θ underflows while a choice can still
    win. There is no floor: it would undo the wipe-out.
    """

    domain: ClassVar[Domain] = "simplex"
    finite: ClassVar[bool] = True

    lr: Positive | None = None
    bound: Positive = 1.0
    wipe_out: bool = True
    scale: Positive = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.lr is not None and self.scale != 1:
            raise UserError(
                f"arch_optimizer.scale is {self.scale}, but it multiplies only the rate that XNAS chooses itself, and "
                f"arch_optimizer.lr is {self.lr}; leave one of the two out."
            )

    @checked
    def init(self, alpha: Alpha, steps: Annotated[int, Range(0)]) -> ArchState:
        """Store log v = log θ and the number of steps left."""
        return {
            "log_weights": {name: widened(value).log() for name, value in alpha.items()},
            "rate": {name: self._rate(value, steps) for name, value in alpha.items()},
            "left": {name: torch.tensor(steps) for name in alpha},
        }

    def scaled(self, factor: float) -> XNAS:
        """Return the optimizer with ``factor`` times its rate."""
        if self.lr is not None:
            return replace(self, lr=self.lr * factor)
        return replace(self, scale=self.scale * factor)

    def drift_factor(self, ratio: float) -> float:
        """Return √ratio if the rate depends on the number of steps T: then the drift T·√(1/T) grows only with √T."""
        return ratio if self.lr is not None else math.sqrt(ratio)

    def step(self, alpha: Alpha, gradient: Alpha, state: ArchState) -> tuple[Alpha, ArchState]:
        """Take one multiplicative step and wipe out the losers."""
        check_step(alpha, gradient, state, "log_weights", "rate", "left")
        result = Alpha({})
        following: ArchState = {"log_weights": {}, "rate": dict(state["rate"]), "left": {}}
        for name, value in alpha.items():
            left, rate = self._left(state["left"][name]), state["rate"][name]
            logs = state["log_weights"][name] - rate * widened(gradient[name]).clamp(-self.bound, self.bound)
            if self.wipe_out:
                hopeless = logs < logs.amax(-1, keepdim=True) - 2 * self.bound * rate * left
                logs = logs.masked_fill(hopeless, -torch.inf)
            following["log_weights"][name], following["left"][name] = logs, torch.tensor(left)
            result[name] = torch.softmax(logs, dim=-1).to(value)
        return result, following

    def _rate(self, theta: Tensor, steps: int) -> Tensor:
        """Return each row's learning rate, ``[rows, 1]``."""
        choices = widened((theta > 0).sum(-1, keepdim=True))
        if self.lr is not None:
            return torch.full_like(choices, self.lr)
        return self.scale * (2 * choices.log() / max(steps, 1)).sqrt() / self.bound

    @staticmethod
    def _left(left: Tensor) -> int:
        """Return how many steps remain after this one."""
        remaining = int(left) - 1
        if remaining < 0:
            raise UserError(
                "XNAS has already taken all the steps that init() announced; give init() the number of architecture "
                "steps of the whole search."
            )
        return remaining
