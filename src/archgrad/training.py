"""How the weights of a supernet are trained: the settings published with a search space."""

from __future__ import annotations

import math
from dataclasses import dataclass

from archgrad.errors import UserError, check_number, check_whole

__all__ = ["WeightTraining"]


@dataclass(frozen=True)
class WeightTraining:
    """SGD with momentum, a cosine schedule from ``lr`` to ``lr_min`` over the epochs, and gradient clipping.

    lr(t) = lr_min + (lr − lr_min)·(1 + cos(π·t/T))/2, constant within an epoch. The weight decay is constant, or goes
    linearly to ``weight_decay_end``: λ(t) = λ + (λ_end − λ)·t/T.
    """

    lr: float = 0.025
    lr_min: float = 0.001
    momentum: float = 0.9
    weight_decay: float = 3e-4
    nesterov: bool = False
    clip: float = 5.0
    batch_size: int = 64
    epochs: int = 50
    weight_decay_end: float | None = None

    def __post_init__(self) -> None:
        for name in ("lr", "clip"):
            if not getattr(self, name) > 0:
                raise UserError(f"weights.{name} is {getattr(self, name)}; it must be greater than 0.")
        for name in ("lr_min", "momentum", "weight_decay"):
            if not getattr(self, name) >= 0:
                raise UserError(f"weights.{name} is {getattr(self, name)}; it must be 0 or greater.")
        if self.weight_decay_end is not None:
            check_number("weights.weight_decay_end", self.weight_decay_end)
        for name in ("batch_size", "epochs"):
            check_whole(f"weights.{name}", getattr(self, name))
        if self.nesterov and not self.momentum:
            raise UserError("weights.nesterov needs weights.momentum greater than 0; set both or neither.")

    def lr_at(self, epoch: int) -> float:
        """Return the learning rate of an epoch, counted from 0."""
        return self.lr_min + (self.lr - self.lr_min) * (1 + math.cos(math.pi * epoch / self.epochs)) / 2

    def weight_decay_at(self, epoch: int) -> float:
        """Return the weight decay of an epoch, counted from 0."""
        if self.weight_decay_end is None:
            return self.weight_decay
        return self.weight_decay + (self.weight_decay_end - self.weight_decay) * epoch / self.epochs
