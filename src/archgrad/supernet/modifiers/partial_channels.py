"""Partial channels (PC-DARTS, Xu et al., 2020, Section 3.2): operations compute a part of each node.

They have no schedule: the part is the same throughout a search.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function

from archgrad.autodiff.functions import apply
from archgrad.errors import UserError
from archgrad.operations import Source
from archgrad.system.random_streams import StreamKey

if TYPE_CHECKING:
    from archgrad.supernet.mixture import CellMixture

__all__ = ["PartialSource", "bypass_weight", "shuffle"]


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


def shuffle(x: Tensor, groups: int) -> Tensor:
    """Move channel g·C/k + i of ``x [N, C, H, W]`` to i·k + g, for k ``groups`` (Zhang et al., 2018).

    Any k neighboring channels of the result come from k different groups. The result is channels-last in memory.

    >>> shuffle(torch.arange(6.0).reshape(1, 6, 1, 1), 3).flatten()
    tensor([0., 2., 4., 1., 3., 5.])
    """
    if groups < 1 or x.shape[1] % groups:
        raise UserError(f"groups is {groups}, which does not divide the {x.shape[1]} channels; choose a divisor.")
    return apply(_Shuffle, x, groups)


class _Shuffle(Function):
    """A permutation of the channels; its gradient is the inverse permutation, a shuffle of C/k groups."""

    @staticmethod
    def forward(x: Tensor, groups: int) -> Tensor:
        n, channels, height, width = x.shape
        order = torch.arange(channels, device=x.device).reshape(groups, -1).t().flatten()
        pixels = x.permute(0, 2, 3, 1).reshape(-1, channels).index_select(1, order)
        return pixels.reshape(n, height, width, channels).permute(0, 3, 1, 2)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, int], output: Tensor) -> None:
        ctx.inverse = inputs[0].shape[1] // inputs[1]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return apply(_Shuffle, grad, ctx.inverse), None
