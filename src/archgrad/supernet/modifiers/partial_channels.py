"""Partial channels (PC-DARTS, Xu et al., 2020, Section 3.2): operations compute a part of each node.

They do so throughout a search: there is nothing to schedule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from archgrad.operations import Source
from archgrad.random_streams import StreamKey

if TYPE_CHECKING:
    from archgrad.supernet.mixture import CellMixture

__all__ = ["PartialSource", "bypass_weight"]


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


def bypass_weight(row: int, choices: int, mixture: CellMixture) -> Tensor | None:
    """Return β of what goes past an edge; None if it is inactive or, without edge weights, each of its ``choices`` is.

    Without edge weights β is Σ p[edge, o] as a constant, which is 1 on the simplex, and 0 for an edge that is gone.
    """
    if mixture.edges is not None:
        return mixture.edges[row]
    active = [weight for weight in mixture.weights[row][:choices] if weight is not None]
    return torch.stack(active).detach().sum(0) if active else None
