"""Skip dropout: drop single activations on skip connections (P-DARTS, Chen et al., 2019, Section 3.3)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from archgrad.distributed.shard import drawn_rows
from archgrad.operations import FactorizedReduce, Identity, Operation, Projection, Weighted
from archgrad.supernet.modifiers.base import Modifier, Purpose, SearchTime

__all__ = ["SkipDropout", "is_skip", "kept_elements", "skip_dropout"]

_DECAY = 0.2
"""The decrease of log(rate) per epoch once α moves."""


@dataclass(frozen=True)
class SkipDropout(Modifier):
    """Drop single activations on skip connections, with probability ``rate`` at first, in both losses of a search.

    In epoch e of E it is rate·(E − 1 − e)/E during the W warm-up epochs of α, and then rate·exp(−(e − W)/5): it jumps
    back to ``rate`` when α begins to move. This follows the published code of P-DARTS; the paper says that it decays.
    """

    rate: float

    def arguments(self, purpose: Purpose, time: SearchTime) -> Mapping[str, Any]:
        """Return the probability of this epoch."""
        return {"skip_dropout": 0.0 if purpose == "evaluation" else self.rate_at(time)}

    def rate_at(self, time: SearchTime) -> float:
        """Return the probability at some time.

        >>> [round(SkipDropout(0.7).rate_at(SearchTime(epoch, 10, 2, 0.0)), 3) for epoch in (0, 1, 2, 3)]
        [0.63, 0.56, 0.7, 0.573]
        """
        if time.epoch < time.warmup_epochs:
            return self.rate * (time.epochs - 1 - time.epoch) / time.epochs
        return self.rate * math.exp(-_DECAY * (time.epoch - time.warmup_epochs))


def is_skip(operation: Operation) -> bool:
    """Tell whether a choice is a skip connection: the identity, or what stands for it where the resolution changes."""
    return isinstance(operation, Identity | FactorizedReduce | Projection)


def skip_dropout(term: Tensor | Weighted, rate: float, generator: torch.Generator) -> Tensor | Weighted:
    """Return m·term, where m is 0 with probability ``rate`` and 1/(1 − rate) otherwise, drawn for each element."""
    if isinstance(term, Weighted):
        return Weighted(term.tensor * kept_elements(term.tensor, rate, generator), term.weight)
    return term * kept_elements(term, rate, generator)


def kept_elements(like: Tensor, rate: float, generator: torch.Generator) -> Tensor:
    """Return the factors m in the shape and layout of a tensor; single and double precision draw the same.

    >>> kept_elements(torch.zeros(1, 1, 1, 3), 0.5, torch.Generator().manual_seed(1)).flatten()
    tensor([2., 0., 0.])
    """
    n, channels, height, width = like.shape

    def draw(images: int) -> Tensor:
        size = (images, height, width, channels)  # channels-last, as the supernet's tensors are
        return torch.rand(size, generator=generator, dtype=torch.float32, device=like.device)

    return (drawn_rows(n, draw).permute(0, 3, 1, 2) >= rate).to(like.dtype).div(1 - rate)
