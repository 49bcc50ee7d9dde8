"""The forward pass of a network on shards of a batch: its outputs are those for the joint batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, TypeVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from archgrad.autodiff.forward_mode import ForwardMode
from archgrad.distributed.batch_norm import synchronized_batch_norm
from archgrad.distributed.functions import copy_to_shards, gather_rows, own_rows
from archgrad.distributed.processes import processes
from archgrad.distributed.shard import Shard, shard_pass
from archgrad.errors import UserError

__all__ = ["ShardMode", "forward_on_shards"]

V = TypeVar("V", bound=Mapping[str, Tensor])


def forward_on_shards(
    forward: Callable[..., Any],
    weights: Mapping[str, Tensor],
    images: Tensor,
    mixture: Mapping[str, Tensor],
    rows: int,
    local_statistics: bool,
    **extra: object,
) -> Any:
    """Return ``forward(weights, images, mixture)`` for the joint batch of ``rows`` images; ``images`` are the own ones.

    Weights and mixture are replicated, and so is what it returns. Their gradients are summed over the processes when
    the backward pass reaches them. Batch norms use the statistics of the joint batch, unless these are ``local``. The
    global random generator differs from process to process inside, so that a dropout draws independent numbers.
    """
    me = processes()
    shard = Shard.of(rows, *me)
    if len(images) != shard.size:
        raise UserError(
            f"process {me.rank} of {me.size} has {len(images)} of {rows} images, but its share is {shard.size}; load "
            f"the batches of a search with archgrad's loader."
        )
    with _own_random_state(me.rank, images.device), ShardMode(shard, local_statistics):
        output = forward(_copied(weights), images, _sharded_mixture(mixture, shard), **extra)
    if isinstance(output, tuple):
        return tuple(gather_rows(one, shard) for one in output)
    return gather_rows(output, shard)


class ShardMode(ForwardMode):
    """Computes a forward pass as that of the joint batch, of which this process has one ``shard``.

    Batch norms, users' own ones too, use the statistics of all shards, unless these are ``local``. Random draws for
    each image are those of the joint batch.
    """

    def __init__(self, shard: Shard, local_statistics: bool = False) -> None:
        super().__init__()
        self.shard, self.local_statistics, self._draws = shard, local_statistics, ExitStack()

    def __enter__(self) -> Any:
        self._draws.enter_context(shard_pass(self.shard, not self.local_statistics))
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._draws.close()

    def repetition(self) -> Callable[[], ShardMode]:
        """Return what makes the same mode again."""
        return partial(ShardMode, self.shard, self.local_statistics)

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        joint = func is F.batch_norm and not self.local_statistics
        return (synchronized_batch_norm if joint else func)(*args, **(kwargs or {}))


def _copied(vector: V) -> V:
    """Let the shards use replicated tensors; those without a gradient, such as buffers, stay the same objects."""
    names = [name for name, value in vector.items() if value.requires_grad] if torch.is_grad_enabled() else []
    copies = copy_to_shards(*(vector[name] for name in names))
    return cast(V, {**vector, **dict(zip(names, copies, strict=True))})


def _sharded_mixture(mixture: Mapping[str, Tensor], shard: Shard) -> dict[str, Tensor]:
    """Return the mixture for the own images; one for each image is ``[cells, N, rows, choices]``."""
    by_image = {name: own_rows(value, shard, 1) for name, value in mixture.items() if value.dim() == 4}
    shared = _copied({name: value for name, value in mixture.items() if name not in by_image})
    return {name: (by_image | shared)[name] for name in mixture}


@contextmanager
def _own_random_state(rank: int, device: torch.device) -> Iterator[None]:
    seed = int(torch.randint(2**62, ()))  # the generator moves on alike in all processes
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.default_generator.manual_seed(seed + rank)
        if device.type == "cuda":
            torch.cuda.manual_seed(seed + rank)
        yield
