"""Partial channels (PC-DARTS, Xu et al., 2020, Section 3.2): operations compute a part of each node."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from archgrad.operations import Source
from archgrad.random_streams import StreamKey

__all__ = ["PartialSource"]


class PartialSource(Source):
    """The first C/k channels of a node, which operations read, and the ``rest``, which goes past them."""

    def __init__(self, x: Tensor, stream: StreamKey, partial: int) -> None:
        width = x.shape[1] // partial
        first, rest = torch.split_with_sizes(x, [width, x.shape[1] - width], dim=1)
        super().__init__(first.clone(), stream)  # dense, as the kernels want it
        self.rest = Source(rest)

    def bypass(self, stride: int) -> Tensor:
        """Return the rest at the resolution that operations of this stride give: max-pooled, once for all edges."""
        if stride == 1:
            return self.rest.x
        return self.rest.share(f"pool/{stride}", lambda rest: F.max_pool2d(rest, stride, stride, ceil_mode=True))
