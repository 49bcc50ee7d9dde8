"""How values become sharded and replicated again: four functions, differentiable any number of times.

Let f copy a replicated value to all shards, and g sum over the shards: g is the transpose of f. Let G gather the rows
of all shards, and o take the own ones: o is the transpose of G. The derivative of each is its partner, so the chain
rule holds at every order: what the backward pass gives is the gradient of the one joint loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function

from archgrad.autodiff.functions import apply_all
from archgrad.distributed.collectives import all_sums
from archgrad.distributed.shard import Shard

__all__ = ["copy_to_shards", "gather_rows", "joint_sum", "own_rows", "sum_over_shards"]


def copy_to_shards(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Let the shards use these replicated tensors (f): their gradients are summed over the shards, all at once."""
    return apply_all(_CopyToShards, *tensors) if tensors else ()


def sum_over_shards(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Return the replicated sums of sharded tensors (g)."""
    return apply_all(_SumOverShards, *tensors) if tensors else ()


def joint_sum(x: Tensor) -> Tensor:
    """Return f(g(x)): the sum of a sharded tensor, for use in the shards. It is its own transpose."""
    return copy_to_shards(*sum_over_shards(x))[0]


def gather_rows(x: Tensor, shard: Shard, dim: int = 0) -> Tensor:
    """Return the replicated tensor whose rows are those of all shards (G)."""
    rows = [0, 0] * (x.dim() - dim - 1) + [shard.start, shard.rows - shard.stop]
    return sum_over_shards(F.pad(x, rows))[0]  # all but one of the addends are zero


def own_rows(x: Tensor, shard: Shard, dim: int = 0) -> Tensor:
    """Return the rows of this shard of a replicated tensor (o)."""
    return shard.own(copy_to_shards(x)[0], dim)


class _CopyToShards(Function):
    @staticmethod
    def forward(*tensors: Tensor) -> tuple[Tensor, ...]:
        return tensors

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        return _of_present(sum_over_shards, grads)


class _SumOverShards(Function):
    @staticmethod
    def forward(*tensors: Tensor) -> tuple[Tensor, ...]:
        return all_sums(tensors)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        return _of_present(copy_to_shards, grads)


def _of_present(function: Any, grads: Sequence[Tensor | None]) -> tuple[Tensor | None, ...]:
    """Apply a function of several tensors to those that are not None: the same ones in all processes."""
    found = iter(function(*(grad for grad in grads if grad is not None)))
    return tuple(None if grad is None else next(found) for grad in grads)
