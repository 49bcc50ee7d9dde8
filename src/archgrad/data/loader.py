"""Batches by number: any batch can be loaded without the ones before it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from archgrad import random_streams
from archgrad.data.augment import Augmentation
from archgrad.data.dataset import ImageData
from archgrad.data.normalize import Normalization
from archgrad.errors import UserError

__all__ = ["Batch", "Loader", "evaluation_batches"]


class Batch(NamedTuple):
    """Normalized images (of the default dtype, [B, C, H, W] in channels-last memory) and their labels (int64 [B])."""

    inputs: Tensor
    targets: Tensor


class Loader:
    """Shuffled, augmented batches of some images of a data set.

    ``batch(i)`` is a pure function of the arguments and of ``i``: batch 1000 is the same in a resumed run. Each pass
    ``i // steps`` has its own order. The last incomplete batch of a pass is dropped; with fewer images than one batch,
    the batch is all of them. ``shard`` is (r, n): of n processes, this is number r, and its batches have its own rows
    of the joint inputs, but the targets of all.
    """

    def __init__(
        self,
        data: ImageData,
        indices: Tensor,
        batch_size: int,
        normalization: Normalization,
        augmentation: Augmentation | None = None,
        seed: int = 0,
        stream: str = "train",
        device: torch.device | str = "cpu",
        shard: tuple[int, int] = (0, 1),
    ) -> None:
        _check(data, indices, batch_size)
        self.shard = shard
        self.data = data
        self.indices = indices.cpu()
        self.batch_size = min(batch_size, len(indices))
        self.normalization = normalization
        self.augmentation = augmentation or Augmentation()
        self.seed = seed
        self.stream = stream
        self.device = torch.device(device)
        self._order: tuple[int, Tensor] = (-1, self.indices)

    @property
    def steps(self) -> int:
        """The number of batches in one pass."""
        return len(self.indices) // self.batch_size

    def batch(self, index: int) -> Batch:
        """Return batch ``index``, counted from the start of the first pass."""
        if index < 0:
            raise UserError(f"the batch number is {index}; give a number from 0 on.")
        number, step = divmod(index, self.steps)
        chosen = self._order_of(number)[step * self.batch_size : (step + 1) * self.batch_size]
        draws = random_streams.generator(self.seed, self.stream, "augment", index)
        # As in the published training code: crops pad with black, cutout fills with the mean color.
        pixels = self.augmentation.move(_pixels(self.data, chosen, self.device), draws)
        images = self.augmentation.erase(self.normalization(pixels), draws)
        batch = _batch(self.data, chosen, images)
        rank, count = self.shard
        return batch if count == 1 else batch._replace(inputs=batch.inputs.tensor_split(count)[rank])

    def _order_of(self, number: int) -> Tensor:
        if self._order[0] != number:
            draws = random_streams.generator(self.seed, self.stream, "order", number)
            self._order = (number, self.indices[torch.randperm(len(self.indices), generator=draws)])
        return self._order[1]


def evaluation_batches(
    data: ImageData,
    indices: Tensor,
    normalization: Normalization,
    batch_size: int = 256,
    device: torch.device | str = "cpu",
) -> Iterator[Batch]:
    """Yield every chosen image once, in order, without augmentation; the last batch may be smaller."""
    _check(data, indices, batch_size)
    for chosen in torch.split(indices.cpu(), batch_size):
        yield _batch(data, chosen, normalization(_pixels(data, chosen, torch.device(device))))


def _pixels(data: ImageData, chosen: Tensor, device: torch.device) -> Tensor:
    # Move bytes to the device: a quarter of the size of floats.
    return data.images[chosen].to(device)


def _batch(data: ImageData, chosen: Tensor, images: Tensor) -> Batch:
    # Normalizing in the plain layout and converting once is three times faster than normalizing channels-last.
    return Batch(images.contiguous(memory_format=torch.channels_last), data.labels[chosen].to(images.device))


def _check(data: ImageData, indices: Tensor, batch_size: int) -> None:
    if batch_size < 1:
        raise UserError(f"the batch size is {batch_size}; give at least 1.")
    if len(indices) == 0:
        raise UserError(f"no images of {data.name!r} were chosen; give at least one index.")
    if int(indices.min()) < 0 or int(indices.max()) >= len(data):
        raise UserError(f"an index is outside {data.name!r}, which has {len(data)} images; split this data again.")
