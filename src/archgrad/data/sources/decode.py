"""Decode untrusted image files into tensors."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from archgrad.data.resize import resize
from archgrad.data.sources.common import missing_extra
from archgrad.errors import UserError

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["Encoded", "decode_all"]

_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP")
_MOST_PIXELS = 1 << 26
_FILES_AT_ONCE = 1024


class Encoded(NamedTuple):
    """The bytes of an image file, and its name in error messages."""

    name: str
    content: bytes


def decode_all(files: Iterable[Encoded], image_size: int | None) -> Tensor:
    """Decode files into uint8 [N, C, H, W]: C is 1 if all are gray, else 3.

    With ``image_size`` each is resized immediately, with the same result as resizing later. Without it all must have
    the same size.
    """
    chunks: list[Tensor] = []
    first: tuple[str, torch.Size] | None = None
    iterator = iter(files)
    while chunk := list(islice(iterator, _FILES_AT_ONCE)):
        images = [_decode(file) for file in chunk]
        if image_size is None:
            first = first or (chunk[0].name, images[0].shape[1:])
            _check_sizes(first, chunk, images)
        chunks.append(_stack(images, image_size))
    return torch.cat(list(_same_channels(chunks)))


def _decode(file: Encoded) -> Tensor:
    """Decode one file into uint8 [C, H, W], C being 1 or 3."""
    try:
        from PIL import Image
    except ImportError:
        raise missing_extra("Pillow", "decoding images") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            image = Image.open(io.BytesIO(file.content), formats=_FORMATS)
        if image.width * image.height > _MOST_PIXELS:
            raise Image.DecompressionBombError(f"{image.width}×{image.height} pixels are too many")
        return _to_tensor(image)
    except MemoryError:
        raise
    except Exception as problem:  # Pillow's readers raise many kinds of error on damaged files
        raise UserError(
            f"the image {file.name} cannot be read ({problem}); replace or remove it. "
            f"It must be one of {', '.join(_FORMATS)} and at most {_MOST_PIXELS} pixels."
        ) from problem


def _to_tensor(image: Image.Image) -> Tensor:
    if image.mode.startswith("I"):  # 16-bit gray, which Pillow would clip instead of scaling
        array = (np.asarray(image) >> 8).astype(np.uint8)
    elif image.mode in {"1", "L", "LA"}:
        array = np.array(image.convert("L"))
    else:
        # Pillow warns about a palette with transparency unless it is converted through RGBA.
        array = np.array(image.convert("RGBA" if image.mode == "P" else "RGB").convert("RGB"))
    pixels = torch.from_numpy(array)
    return pixels[None] if pixels.ndim == 2 else pixels.permute(2, 0, 1)


def _check_sizes(first: tuple[str, torch.Size], files: list[Encoded], images: list[Tensor]) -> None:
    name, size = first
    for file, image in zip(files, images, strict=True):
        if image.shape[1:] != size:
            raise UserError(
                f"the images have different sizes: {name} is {_shown(size)} and {file.name} is "
                f"{_shown(image.shape[1:])} pixels; resize them with --image-size {min(size)}."
            )


def _stack(images: list[Tensor], image_size: int | None) -> Tensor:
    shapes = {image.shape for image in images}
    if image_size is None or len(shapes) == 1:
        stacked = torch.stack(list(_same_channels(images)))
        return stacked if image_size is None else resize(stacked, image_size)
    return torch.stack(list(_same_channels([resize(image[None], image_size)[0] for image in images])))


def _same_channels(tensors: list[Tensor]) -> Iterator[Tensor]:
    """Convert gray tensors [..., 1, H, W] to color if any other tensor has color."""
    channels = max(tensor.shape[-3] for tensor in tensors)
    return (tensor.expand(*tensor.shape[:-3], channels, -1, -1) for tensor in tensors)


def _shown(size: torch.Size) -> str:
    return f"{size[0]}×{size[1]}"
