"""Partial channels (PC-DARTS, Xu et al., 2020, Section 3.2): operations compute a part of each node.

They have no schedule: the part is the same throughout a search.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from archgrad.operations import Source
from archgrad.system.random_streams import StreamKey

if TYPE_CHECKING:
    from archgrad.supernet.mixture import CellMixture

__all__ = ["PartialSource", "bypass_weight"]


class PartialSource(Source):
    """The first C/k channels of a node, which the operations read, and the ``rest``, which bypasses them."""

    def __init__(self, x: Tensor, stream: StreamKey, partial: int) -> None:
        width = x.shape[1] // partial
        first, rest = torch.split_with_sizes(x, [width, x.shape[1] - width], dim=1)
        super().__init__(first.clone(), stream)  # the kernels need dense memory
        self.rest = Source(rest)

    def bypass(self, stride: int) -> Tensor:
        """Return the rest, max-pooled to the resolution after this stride; all edges share it."""
        if stride == 1:
            return self.rest.x
        return self.rest.share(f"pool/{stride}", lambda rest: F.max_pool2d(rest, stride, stride, ceil_mode=True))


def bypass_weight(row: int, choices: int, mixture: CellMixture) -> Tensor | None:
    """Return the weight β of the channels that bypass an edge; None if the edge or all its ``choices`` are inactive.

    Without edge weights β is Σ p[edge, o] as a constant: 1 on the simplex, and 0 for a removed edge.
    """
    if mixture.edges is not None:
        return mixture.edges[row]
    active = [weight for weight in mixture.weights[row][:choices] if weight is not None]
    return torch.stack(active).detach().sum(0) if active else None
