"""Random tensors that are the same in every run."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["randn"]


def randn(*shape: int, seed: int) -> Tensor:
    """Standard normal numbers in double precision."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
