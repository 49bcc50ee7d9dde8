"""Resize uint8 images deterministically."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from archgrad.errors import UserError

__all__ = ["resize"]

# The float copies take eight times the memory of the pixels; this keeps them below about 100 MB.
_PIXELS_AT_ONCE = 1 << 23


def resize(images: Tensor, size: int) -> Tensor:
    """Resize uint8 images [N, C, H, W] to [N, C, size, size].

    When H and W are multiples of ``size`` each new pixel is the exact mean of its block, halves rounded up;
    otherwise the antialiased bilinear filter is used.
    """
    if size < 1:
        raise UserError(f"the image size is {size}; give a positive number of pixels, such as 16 or 32.")
    count, channels, height, width = images.shape
    if (height, width) == (size, size):
        return images
    method = _pool if height % size == 0 and width % size == 0 else _filter
    return _in_chunks(images, torch.empty(count, channels, size, size, dtype=torch.uint8), method)


def _in_chunks(images: Tensor, out: Tensor, method: Callable[[Tensor, int], Tensor]) -> Tensor:
    per_image = max(images[0].numel(), out[0].numel()) if len(images) else 1
    chunk = max(1, _PIXELS_AT_ONCE // per_image)
    for start in range(0, len(images), chunk):
        part = slice(start, start + chunk)
        out[part] = method(images[part], out.shape[-1])
    return out


def _pool(images: Tensor, size: int) -> Tensor:
    height, width = images.shape[2:]
    means = F.avg_pool2d(images.double(), (height // size, width // size))
    return means.add_(0.5).to(torch.uint8)


def _filter(images: Tensor, size: int) -> Tensor:
    resized = F.interpolate(images.float(), (size, size), mode="bilinear", align_corners=False, antialias=True)
    return resized.round_().clamp_(0, 255).to(torch.uint8)
