"""Normalize each channel to mean 0 and standard deviation 1."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from archgrad.data.dataset import ImageData
from archgrad.errors import UserError

__all__ = ["Normalization", "measure"]

_IMAGES_AT_ONCE = 1024


@dataclass(frozen=True)
class Normalization:
    """The mean and standard deviation of each channel, for pixels scaled to [0, 1]."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.mean) != len(self.std):
            raise UserError(f"there are {len(self.mean)} means but {len(self.std)} deviations; give one per channel.")
        if not all(map(math.isfinite, self.mean + self.std)) or min(self.std, default=1.0) <= 0:
            raise UserError(f"the mean {self.mean} must be finite and the deviation {self.std} positive.")

    def __call__(self, images: Tensor) -> Tensor:
        """Return normalized images of the default dtype for uint8 images [B, C, H, W]."""
        if images.shape[1] != len(self.mean):
            raise UserError(
                f"the images have {images.shape[1]} channels, but the normalization was measured on {len(self.mean)}; "
                f"measure it on the same data."
            )
        scale = [1 / (255 * std) for std in self.std]
        shift = [-mean / std for mean, std in zip(self.mean, self.std, strict=True)]
        return images.to(torch.get_default_dtype()).mul_(_per_channel(scale, images)).add_(_per_channel(shift, images))


def measure(data: ImageData, indices: Tensor | None = None) -> Normalization:
    """Measure the exact mean and deviation of each channel of the chosen images (None: all of them).

    A constant channel gets deviation 1, so that it becomes 0 and not NaN.
    """
    chosen = torch.arange(len(data)) if indices is None else indices
    if len(chosen) == 0:
        raise UserError(f"no images of {data.name!r} to measure the normalization on; give at least one index.")
    counts = _histogram(data.images, chosen)
    values = torch.arange(256)
    pixels = int(counts[0].sum())
    moments = zip((counts * values).sum(1).tolist(), (counts * values**2).sum(1).tolist(), strict=True)
    means, deviations = [], []
    for total, squares in moments:
        means.append(total / (255 * pixels))
        deviations.append(math.sqrt(pixels * squares - total**2) / (255 * pixels) or 1.0)
    return Normalization(tuple(means), tuple(deviations))


def _histogram(images: Tensor, indices: Tensor) -> Tensor:
    """Count how often each pixel value occurs in each channel: int64 [C, 256]."""
    counts = torch.zeros(images.shape[1], 256, dtype=torch.int64)
    for chunk in torch.split(indices, _IMAGES_AT_ONCE):
        for channel, row in enumerate(counts):
            row += torch.bincount(images[chunk, channel].flatten(), minlength=256)
    return counts


def _per_channel(values: list[float], images: Tensor) -> Tensor:
    return torch.tensor(values, device=images.device).view(1, -1, 1, 1)
