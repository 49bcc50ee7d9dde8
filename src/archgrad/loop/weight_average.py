"""The moving average of a network's weights, which often predicts better than the last weights."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

__all__ = ["WeightAverage"]


@dataclass(frozen=True)
class WeightAverage:
    """w̄ ← d·w̄ + (1 − d)·w after every step, with d = min(``decay``, (1 + t)/(10 + t)) at step t.

    The smaller decay at the beginning lets the average forget the initial weights. ``tensors`` are w̄ and the averaged
    running statistics by name; counters are copied.
    """

    decay: float
    tensors: dict[str, Tensor]

    @classmethod
    def of(cls, network: nn.Module, decay: float) -> WeightAverage:
        """Begin with the present weights."""
        return cls(decay, {name: value.detach().clone() for name, value in network.state_dict().items()})

    @torch.no_grad()
    def update(self, network: nn.Module, step: int) -> None:
        """Add the weights after step ``step``, counted from 0."""
        decay = min(self.decay, (1 + step) / (10 + step))
        for name, value in network.state_dict().items():
            own = self.tensors[name]
            if own.is_floating_point():
                own.lerp_(value, 1 - decay)
            else:
                own.copy_(value)

    def restore(self, saved: dict[str, Tensor]) -> None:
        """Become what a checkpoint holds."""
        for name, value in saved.items():
            self.tensors[name].copy_(value)
