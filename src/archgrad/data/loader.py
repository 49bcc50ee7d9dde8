"""Batches by number: any batch can be loaded without the ones before it."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from archgrad.data.augment import Augmentation
from archgrad.data.base import Data
from archgrad.data.normalize import Normalization
from archgrad.data.workers import WorkerProcesses
from archgrad.distributed.shard import Shard
from archgrad.errors import UserError
from archgrad.system import random_streams

__all__ = ["Batch", "Loader"]

_KEPT = 8
"""So many batches of lazy data are kept as they were read: unrolled gradients and discretizers ask for some again."""


class Batch(NamedTuple):
    """Normalized inputs (of the default dtype, [B, C, H, W] in channels-last memory) and their targets ([B] or [B, K]).

    A loader that has a shard of every batch gives the inputs of the shard, and the targets of the whole batch.
    """

    inputs: Tensor
    targets: Tensor


class Loader:
    """Shuffled, augmented batches of some inputs of the data.

    ``batch(i)`` is a pure function of the arguments and of ``i``: batch 1000 is the same in a resumed run. Each pass
    ``i // steps`` has its own order. The last incomplete batch of a pass is dropped; with fewer inputs than one batch,
    the batch is all of them. Without an ``augmentation``, the transform of the data is left out too.

    ``workers`` processes read data that is not in memory ahead of time. ``shard`` is (rank, processes): only these rows
    of each batch are read, and they are the same as in the whole batch.
    """

    def __init__(
        self,
        data: Data,
        indices: Tensor,
        batch_size: int,
        normalization: Normalization,
        augmentation: Augmentation | None = None,
        seed: int = 0,
        stream: str = "train",
        device: torch.device | str = "cpu",
        workers: int = 0,
        shard: tuple[int, int] = (0, 1),
    ) -> None:
        _check(data, indices, batch_size)
        self.data, self.indices, self.batch_size = data, indices.cpu(), min(batch_size, len(indices))
        self.normalization, self.augmentation = normalization, augmentation or Augmentation()
        self.seed, self.stream, self.device, self.shard = seed, stream, torch.device(device), shard
        self._rows = Shard.of(self.batch_size, *shard)
        self._raw = _RawBatches(data, self.indices, self.batch_size, seed, stream, augmentation is not None, self._rows)
        pinned = self.device.type == "cuda"
        self._workers = WorkerProcesses(self._raw, workers, pinned) if data.lazy and workers else None
        self._read = (self._workers or self._raw).__getitem__
        if data.lazy:
            self._read = lru_cache(_KEPT)(self._read)

    @property
    def steps(self) -> int:
        """The number of batches in one pass."""
        return self._raw.steps

    def batch(self, index: int) -> Batch:
        """Return batch ``index``, counted from the start of the first pass."""
        if index < 0:
            raise UserError(f"the batch number is {index}; give a number from 0 on.")
        # Move bytes to the device: a quarter of the size of floats.
        pixels = self._read(index).to(self.device, non_blocking=self._workers is not None)
        draws, rows = random_streams.generator(self.seed, self.stream, "augment", index), self._rows
        # As in the published training code: crops pad with black, cutout fills with the mean color.
        moved = self.normalization(self.augmentation.move(pixels, draws, rows))
        # Normalizing in the plain layout and converting once is three times faster than normalizing channels-last.
        images = self.augmentation.erase(moved, draws, rows).contiguous(memory_format=torch.channels_last)
        return Batch(images, self.data.targets[self._raw.chosen(index)].to(images.device))

    def close(self) -> None:
        """End the worker processes; the next batch starts them again."""
        if self._workers is not None:
            self._workers.close()


class _RawBatches:
    """The inputs of a batch as the data has them; a pure function of its number, so that any process can read it."""

    def __init__(
        self, data: Data, indices: Tensor, batch_size: int, seed: int, stream: str, training: bool, rows: Shard
    ) -> None:
        self.data, self.indices, self.batch_size, self.rows = data, indices, batch_size, rows
        self.seed, self.stream, self.training = seed, stream, training
        self.steps = len(indices) // batch_size
        self._order: tuple[int, Tensor] = (-1, indices)

    def chosen(self, index: int) -> Tensor:
        """Return the indices of the inputs of batch ``index``, of all shards."""
        number, step = divmod(index, self.steps)
        if self._order[0] != number:
            draws = random_streams.generator(self.seed, self.stream, "order", number)
            self._order = (number, self.indices[torch.randperm(len(self.indices), generator=draws)])
        return self._order[1][step * self.batch_size : (step + 1) * self.batch_size]

    def __getitem__(self, index: int) -> Tensor:
        """Read the inputs [B, C, H, W] of the shard of batch ``index``; in training, the data transforms them."""
        key = (self.seed, self.stream, "item", index // self.steps) if self.training else (self.seed, "item")
        return self.data.read(self.chosen(index)[self.rows.start : self.rows.stop], key, self.training)


def _check(data: Data, indices: Tensor, batch_size: int) -> None:
    if batch_size < 1:
        raise UserError(f"the batch size is {batch_size}; give at least 1.")
    if len(indices) == 0:
        raise UserError(f"no images of {data.name!r} were chosen; give at least one index.")
    if int(indices.min()) < 0 or int(indices.max()) >= len(data):
        raise UserError(f"an index is outside {data.name!r}, which has {len(data)} images; split this data again.")
