"""Random crops, flips and cutout on whole batches."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from archgrad.errors import UserError

__all__ = ["Augmentation"]


@dataclass(frozen=True)
class Augmentation:
    """Random changes of training images.

    ``crop_padding`` adds zeros on every side before a random crop of the old size. ``flip`` mirrors half of the images.
    ``cutout`` is the side of a square of zeros at a random center (0: none).

    >>> images = torch.ones(2, 3, 8, 8)
    >>> Augmentation(crop_padding=1, flip=True, cutout=4)(images, torch.Generator().manual_seed(0)).shape
    torch.Size([2, 3, 8, 8])
    """

    crop_padding: int = 0
    flip: bool = False
    cutout: int = 0

    def __post_init__(self) -> None:
        for name in (field.name for field in fields(self) if field.name != "flip"):
            if getattr(self, name) < 0:
                raise UserError(f"{name} is {getattr(self, name)}; give 0 (off) or a positive number of pixels.")

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Augment float images [B, C, H, W] with a CPU generator; the input stays unchanged."""
        return self.erase(self.move(images, generator), generator)

    def move(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Crop and flip images [B, C, H, W] of any dtype with one gather."""
        if not self.crop_padding and not self.flip:
            return images
        batch, channels, height, width = images.shape
        padding = self.crop_padding
        padded = F.pad(images, (padding,) * 4) if padding else images
        rows = _draw(2 * padding + 1, batch, generator) + torch.arange(height)
        columns = _draw(2 * padding + 1, batch, generator) + self._columns(width, batch, generator)
        pixels = (rows[:, :, None] * padded.shape[3] + columns[:, None, :]).view(batch, 1, -1)
        index = pixels.to(images.device).expand(-1, channels, -1)
        return padded.reshape(batch, channels, -1).gather(2, index).view(images.shape)

    def erase(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Set one square per image [B, C, H, W] to zero; it is clipped at the border."""
        if not self.cutout:
            return images
        batch, _, height, width = images.shape
        rows = self._erased(height, batch, generator)
        columns = self._erased(width, batch, generator)
        square = rows[:, None, :, None] & columns[:, None, None, :]
        return images.masked_fill(square.to(images.device), 0)

    def scaled(self, old: int, new: int) -> Augmentation:
        """Return the same augmentation for images resized from ``old`` to ``new`` pixels a side."""
        return replace(self, crop_padding=_scale(self.crop_padding, old, new), cutout=_scale(self.cutout, old, new))

    def _columns(self, width: int, batch: int, generator: torch.Generator) -> Tensor:
        columns = torch.arange(width)
        if not self.flip:
            return columns.expand(batch, -1)
        return torch.where(_draw(2, batch, generator).bool(), columns.flip(0), columns)

    def _erased(self, size: int, batch: int, generator: torch.Generator) -> Tensor:
        """Return a mask [B, size] of the rows (or columns) that the square covers."""
        start = _draw(size, batch, generator) - self.cutout // 2
        position = torch.arange(size)
        return (position >= start) & (position < start + self.cutout)


def _draw(upper: int, batch: int, generator: torch.Generator) -> Tensor:
    """Draw integers [B, 1] below ``upper``."""
    return torch.randint(upper, (batch, 1), generator=generator)


def _scale(pixels: int, old: int, new: int) -> int:
    return max(1, pixels * new // old) if pixels else 0
