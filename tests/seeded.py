"""Random tensors that are the same in every run."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["randn", "symmetric"]


def randn(*shape: int, seed: int) -> Tensor:
    """Standard normal numbers in double precision."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def symmetric(eigenvalues: list[float], seed: int = 0) -> Tensor:
    """A symmetric matrix with these eigenvalues."""
    basis, _ = torch.linalg.qr(randn(len(eigenvalues), len(eigenvalues), seed=seed))
    return basis @ torch.diag(torch.tensor(eigenvalues, dtype=torch.float64)) @ basis.T
