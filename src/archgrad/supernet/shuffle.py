"""Channel shuffle: mix the groups of channels that a cell keeps apart."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from archgrad.autodiff.functions import apply
from archgrad.errors import UserError

__all__ = ["shuffle"]


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
