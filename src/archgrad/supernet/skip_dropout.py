"""Skip dropout: silence single numbers of what skip connections carry (P-DARTS, Chen et al., 2019, Section 3.3)."""

from __future__ import annotations

import torch
from torch import Tensor

from archgrad.operations import FactorizedReduce, Identity, Operation, Weighted

__all__ = ["is_skip", "kept_elements", "skip_dropout"]


def is_skip(operation: Operation) -> bool:
    """Tell whether a choice is a skip connection: the identity, or the factorised reduction at stride 2."""
    return isinstance(operation, Identity | FactorizedReduce)


def skip_dropout(term: Tensor | Weighted, rate: float, generator: torch.Generator) -> Tensor | Weighted:
    """Return m·term with m = 0 with the probability ``rate`` and 1/(1 − rate) otherwise, drawn for each number."""
    if isinstance(term, Weighted):
        return Weighted(term.tensor * kept_elements(term.tensor, rate, generator), term.weight)
    return term * kept_elements(term, rate, generator)


def kept_elements(like: Tensor, rate: float, generator: torch.Generator) -> Tensor:
    """Return the factors m, of the shape and layout of a tensor; single and double precision draw the same.

    >>> kept_elements(torch.zeros(1, 1, 1, 3), 0.5, torch.Generator().manual_seed(1)).flatten()
    tensor([2., 0., 0.])
    """
    n, channels, height, width = like.shape
    size = (n, height, width, channels)  # channels-last, as the supernet's tensors are
    draws = torch.rand(size, generator=generator, dtype=torch.float32, device=like.device).permute(0, 3, 1, 2)
    return (draws >= rate).to(like.dtype).div(1 - rate)
