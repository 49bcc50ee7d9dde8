"""How the weights of a supernet are trained: the settings published with a search space."""

from __future__ import annotations

import math
from dataclasses import dataclass

from archgrad.errors import UserError
from archgrad.fields import Count, NonNegative, Positive, Probability, check_fields

__all__ = ["WeightTraining"]


@dataclass(frozen=True)
class WeightTraining:
    """SGD with momentum, a cosine schedule from ``lr`` to ``lr_min`` over the epochs, and gradient clipping.

    lr(t) = lr_min + (lr − lr_min)·(1 + cos(π·t/T))/2, constant within an epoch. The weight decay is constant, or goes
    linearly to ``weight_decay_end``: λ(t) = λ + (λ_end − λ)·t/T.
    """

    lr: Positive = 0.025
    lr_min: NonNegative = 0.001
    momentum: Probability = 0.9
    weight_decay: NonNegative = 3e-4
    nesterov: bool = False
    clip: Positive = 5.0
    batch_size: Count = 64
    epochs: Count = 50
    weight_decay_end: NonNegative | None = None

    def __post_init__(self) -> None:
        check_fields(self, "weights.{}")
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
