"""Drop-path: drop an operation for some images of a batch (Larsson et al., 2017), as in the evaluation of DARTS."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from archgrad.distributed.shard import drawn_rows
from archgrad.operations import Weighted
from archgrad.supernet.modifiers.base import Modifier, Purpose, SearchTime

__all__ = ["DropPath", "drop_path", "kept_images"]


@dataclass(frozen=True)
class DropPath(Modifier):
    """Drop an operation for an image with probability ``rate`` · e/E in epoch e of E, in the training loss only.

    It grows linearly, as in R-DARTS (Zela et al., 2020). The architecture's loss evaluates the network without it.
    """

    rate: float

    def arguments(self, purpose: Purpose, time: SearchTime) -> Mapping[str, Any]:
        """Return the probability of this epoch.

        >>> DropPath(0.4).arguments("training", SearchTime(2, 8, 0, 0.25))
        {'drop_path': 0.1}
        """
        return {"drop_path": self.rate * time.epoch / time.epochs if purpose == "training" else 0.0}


def drop_path(term: Tensor | Weighted, probability: float, generator: torch.Generator) -> Tensor | Weighted:
    """Return m·term, where m[n] is 0 with ``probability`` p and 1/(1 − p) otherwise, drawn for each image n."""
    if isinstance(term, Weighted):
        return Weighted(term.tensor * kept_images(term.tensor, probability, generator), term.weight)
    return term * kept_images(term, probability, generator)


def kept_images(like: Tensor, probability: float, generator: torch.Generator | None = None) -> Tensor:
    """Return the factors m ``[N, 1, 1, 1]`` for a tensor ``[N, C, H, W]``; single and double precision draw the same.

    Without a generator the global one draws.

    >>> kept_images(torch.zeros(3, 1, 2, 2), 0.5, torch.Generator().manual_seed(1)).flatten()
    tensor([2., 0., 0.])
    """

    def draw(images: int) -> Tensor:
        return torch.rand(images, generator=generator, dtype=torch.float32, device=like.device)

    draws = drawn_rows(like.shape[0], draw)
    return (draws >= probability).to(like.dtype).div(1 - probability).reshape(-1, 1, 1, 1)
