"""Drop-path: silence an operation for some images of a batch (Larsson et al., 2017), as DARTS evaluates."""

from __future__ import annotations

import torch
from torch import Tensor

from archgrad.operations import Weighted

__all__ = ["drop_path", "kept_images"]


def drop_path(term: Tensor | Weighted, probability: float, generator: torch.Generator) -> Tensor | Weighted:
    """Return m·term with m[n] = 0 with ``probability`` p and 1/(1 − p) otherwise, drawn for each image n alone."""
    if isinstance(term, Weighted):
        return Weighted(term.tensor * kept_images(term.tensor, probability, generator), term.weight)
    return term * kept_images(term, probability, generator)


def kept_images(like: Tensor, probability: float, generator: torch.Generator) -> Tensor:
    """Return the factors m ``[N, 1, 1, 1]`` for a tensor ``[N, C, H, W]``; single and double precision draw the same.

    >>> kept_images(torch.zeros(3, 1, 2, 2), 0.5, torch.Generator().manual_seed(1)).flatten()
    tensor([2., 0., 0.])
    """
    draws = torch.rand(like.shape[0], generator=generator, dtype=torch.float32, device=like.device)
    return (draws >= probability).to(like.dtype).div(1 - probability).reshape(-1, 1, 1, 1)
