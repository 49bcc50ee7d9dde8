"""The inputs of each batch as the data has them: before augmentation and normalization."""

from __future__ import annotations

import torch
from torch import Tensor

from archgrad.data.base import Data
from archgrad.distributed.shard import Shard
from archgrad.system import random_streams

__all__ = ["RawBatches"]


class RawBatches:
    """Raw inputs by the number of their batch; a pure function, so that any process can read any batch.

    Each pass has its own order. In ``training``, the data applies its transform. ``shard`` is (rank, processes), whose
    rows of each batch are read.
    """

    def __init__(
        self,
        data: Data,
        indices: Tensor,
        batch_size: int,
        seed: int,
        stream: str,
        training: bool,
        shard: tuple[int, int] = (0, 1),
    ) -> None:
        self.data, self.indices, self.batch_size = data, indices, batch_size
        self.seed, self.stream, self.training = seed, stream, training
        self.rows = Shard.of(batch_size, *shard)
        self._order: tuple[int, Tensor] = (-1, indices)

    @property
    def steps(self) -> int:
        """The number of batches in one pass."""
        return len(self.indices) // self.batch_size

    def chosen(self, index: int) -> Tensor:
        """Return the indices of the inputs of batch ``index``, of all shards."""
        number, step = divmod(index, self.steps)
        return self._order_of(number)[step * self.batch_size : (step + 1) * self.batch_size]

    def __getitem__(self, index: int) -> Tensor:
        """Read the inputs [B, C, H, W] of the shard of batch ``index``."""
        key = (self.seed, self.stream, "item", index // self.steps) if self.training else (self.seed, "item")
        return self.data.read(self.chosen(index)[self.rows.start : self.rows.stop], key, self.training)

    def _order_of(self, number: int) -> Tensor:
        if self._order[0] != number:
            draws = random_streams.generator(self.seed, self.stream, "order", number)
            self._order = (number, self.indices[torch.randperm(len(self.indices), generator=draws)])
        return self._order[1]
