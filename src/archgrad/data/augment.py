"""Random crops, flips and cutout on whole batches."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor

from archgrad.distributed.shard import Shard
from archgrad.parts.fields import Range, check_fields

__all__ = ["Augmentation"]

Pixels = Annotated[int, Range(0, 1_000_000)]


@dataclass(frozen=True)
class Augmentation:
    """Random changes of training images.

    ``crop_padding`` adds zeros on every side before a random crop of the old size. ``flip`` mirrors half of the images.
    ``cutout`` is the side of a square of zeros at a random center (0: none).

    >>> images = torch.ones(2, 3, 8, 8)
    >>> Augmentation(crop_padding=1, flip=True, cutout=4)(images, torch.Generator().manual_seed(0)).shape
    torch.Size([2, 3, 8, 8])
    """

    crop_padding: Pixels = 0
    flip: bool = False
    cutout: Pixels = 0

    def __post_init__(self) -> None:
        check_fields(self, "augmentation.{}")

    def __call__(self, images: Tensor, generator: torch.Generator, rows: Shard | None = None) -> Tensor:
        """Augment float images [B, C, H, W] with a CPU generator; the input stays unchanged.

        With ``rows``, the images are these rows of a larger batch, and are augmented as they are there.
        """
        return self.erase(self.move(images, generator, rows), generator, rows)

    def move(self, images: Tensor, generator: torch.Generator, rows: Shard | None = None) -> Tensor:
        """Crop and flip images [B, C, H, W] of any dtype with one gather."""
        if not self.crop_padding and not self.flip:
            return images
        batch, channels, height, width = images.shape
        padding = self.crop_padding
        padded, part = F.pad(images, (padding,) * 4) if padding else images, rows or Shard.of(batch)
        top = _draw(2 * padding + 1, part, generator) + torch.arange(height)
        left = _draw(2 * padding + 1, part, generator) + self._columns(width, part, generator)
        pixels = (top[:, :, None] * padded.shape[3] + left[:, None, :]).view(batch, 1, height * width)
        index = pixels.to(images.device).expand(-1, channels, -1)
        return padded.reshape(batch, channels, math.prod(padded.shape[2:])).gather(2, index).view(images.shape)

    def erase(self, images: Tensor, generator: torch.Generator, rows: Shard | None = None) -> Tensor:
        """Set one square per image [B, C, H, W] to zero; it is clipped at the border."""
        if not self.cutout:
            return images
        batch, _, height, width = images.shape
        part = rows or Shard.of(batch)
        high, wide = self._erased(height, part, generator), self._erased(width, part, generator)
        square = high[:, None, :, None] & wide[:, None, None, :]
        return images.masked_fill(square.to(images.device), 0)

    def scaled(self, old: int, new: int) -> Augmentation:
        """Return the same augmentation for images resized from ``old`` to ``new`` pixels a side."""
        return replace(self, crop_padding=_scale(self.crop_padding, old, new), cutout=_scale(self.cutout, old, new))

    def _columns(self, width: int, part: Shard, generator: torch.Generator) -> Tensor:
        columns = torch.arange(width)
        if not self.flip:
            return columns.expand(part.size, -1)
        return torch.where(_draw(2, part, generator).bool(), columns.flip(0), columns)

    def _erased(self, size: int, part: Shard, generator: torch.Generator) -> Tensor:
        """Return a mask [B, size] of the rows (or columns) that the square covers."""
        start = _draw(size, part, generator) - self.cutout // 2
        position = torch.arange(size)
        return (position >= start) & (position < start + self.cutout)


def _draw(upper: int, part: Shard, generator: torch.Generator) -> Tensor:
    """Draw integers [B, 1] below ``upper`` for all rows of a batch, and return those of its part."""
    return torch.randint(upper, (part.rows, 1), generator=generator)[part.start : part.stop]


def _scale(pixels: int, old: int, new: int) -> int:
    return max(1, pixels * new // old) if pixels else 0
