"""Resize uint8 images deterministically."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from archgrad.errors import UserError
from archgrad.system.memory import check_images
from archgrad.system.warn_once import warn_once

__all__ = ["ResizeMode", "resize"]

ResizeMode = Literal["crop", "pad", "stretch"]
"""How images that are not square become square: cut to the middle, with black borders, or distorted."""

# The float copies take eight times the memory of the pixels; this keeps them below about 100 MB.
_PIXELS_AT_ONCE = 1 << 23
_logger = logging.getLogger(__name__)


def resize(images: Tensor, size: int, mode: str = "crop") -> Tensor:
    """Resize uint8 images [N, C, H, W] to [N, C, size, size].

    ``mode`` is one of :data:`ResizeMode`. When H and W are multiples of the new ones, each new pixel is the exact
    mean of its block, halves rounded up; otherwise the antialiased bilinear filter is used.
    """
    if size < 1:
        raise UserError(f"the image size is {size}; give a positive number of pixels, such as 16 or 32.")
    height, width = images.shape[2:]
    if mode == "stretch" or height == width:
        return _resized(images, size, size)
    if mode == "pad":
        return _padded(images, size)
    warn_once(
        _logger, "images that are not square are cut to their middle; --resize pad or --resize stretch shows all."
    )
    side = min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    return _resized(images[:, :, top : top + side, left : left + side], size, size)


def _padded(images: Tensor, size: int) -> Tensor:
    height, width = images.shape[2:]
    rows, columns = (max(1, round(side * size / max(height, width))) for side in (height, width))
    top, left = (size - rows) // 2, (size - columns) // 2
    out = torch.zeros(*images.shape[:2], size, size, dtype=torch.uint8)
    out[:, :, top : top + rows, left : left + columns] = _resized(images, rows, columns)
    return out


def _resized(images: Tensor, rows: int, columns: int) -> Tensor:
    count, channels, height, width = images.shape
    if (height, width) == (rows, columns):
        return images
    check_images((count + 8) * channels * rows * columns)  # bytes, and the floats of at least one image
    method = _pool if height % rows == 0 and width % columns == 0 else _filter
    return _in_chunks(images, torch.empty(count, channels, rows, columns, dtype=torch.uint8), method)


def _in_chunks(images: Tensor, out: Tensor, method: Callable[[Tensor, int, int], Tensor]) -> Tensor:
    per_image = max(images[0].numel(), out[0].numel()) if len(images) else 1
    chunk = max(1, _PIXELS_AT_ONCE // per_image)
    for start in range(0, len(images), chunk):
        part = slice(start, start + chunk)
        out[part] = method(images[part], *out.shape[2:])
    return out


def _pool(images: Tensor, rows: int, columns: int) -> Tensor:
    height, width = images.shape[2:]
    means = F.avg_pool2d(images.double(), (height // rows, width // columns))
    return means.add_(0.5).to(torch.uint8)


def _filter(images: Tensor, rows: int, columns: int) -> Tensor:
    resized = F.interpolate(images.float(), (rows, columns), mode="bilinear", align_corners=False, antialias=True)
    return resized.round_().clamp_(0, 255).to(torch.uint8)
