"""Images that are decoded when they are needed, because all of them would take too much memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import torch
from torch import Tensor

from archgrad.data.augment import Augmentation
from archgrad.data.base import Data, Shape
from archgrad.data.dataset import LoadOptions, no_progress
from archgrad.data.dataset_data import DatasetData
from archgrad.data.inputs import Inputs
from archgrad.data.sources.common import default_augmentation
from archgrad.data.sources.decode import Encoded, decode_all, decode_one, image_sides
from archgrad.errors import UserError

__all__ = ["MOST_IN_MEMORY", "EncodedImages", "fits_in_memory", "lazy_images"]

MOST_IN_MEMORY = 1 << 28
"""Images of more bytes than this, decoded, stay where they are: 256 MB, and CIFAR-10 takes 154."""
_LOOKED_AT = 256
"""So many images tell whether the others have color."""


class EncodedImages(Protocol):
    """Image files by number."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Encoded: ...

    def fingerprint(self) -> bytes:
        """Return what tells these files from others, without reading them."""


def fits_in_memory(first: Encoded, count: int, options: LoadOptions) -> bool:
    """Tell whether ``count`` decoded images like the first take at most :data:`MOST_IN_MEMORY` bytes."""
    size = options.image_size
    height, width = image_sides(first) if size is None else (size, size)
    return count * 3 * height * width <= MOST_IN_MEMORY


def lazy_images(
    name: str,
    files: EncodedImages,
    labels: Tensor,
    classes: tuple[str, ...],
    options: LoadOptions,
    augmentation: Augmentation | None = None,
) -> Data:
    """Return data that decodes the files when they are needed; a few of them tell its shape."""
    quiet = replace(options, progress=no_progress)
    places = torch.linspace(0, len(files) - 1, min(len(files), _LOOKED_AT), dtype=torch.float64).long().tolist()
    sample = decode_all((files[place] for place in places), len(places), quiet)
    shape: Shape = (sample.shape[1], sample.shape[2], sample.shape[3])
    reader = DecodedInputs(files, shape, quiet)
    options.progress(len(files), len(files))
    return DatasetData(name, reader, labels, classes, shape, torch.uint8, augmentation or default_augmentation(sample))


class DecodedInputs(Inputs):
    """Images that are decoded, and resized as the options say, each time they are read."""

    def __init__(self, files: EncodedImages, shape: Shape, options: LoadOptions) -> None:
        self.files, self.shape, self.options = files, shape, options

    def __getitem__(self, index: int) -> Tensor:
        file = self.files[index]
        image = decode_one(file, self.options, self.shape[0])
        height, width = self.shape[1:]
        if tuple(image.shape[1:]) != (height, width):
            raise UserError(
                f"the image {file.name} has {image.shape[1]}×{image.shape[2]} pixels and the others {height}×{width}; "
                f"resize them with --image-size {min(*image.shape[1:], height, width)}."
            )
        return image

    def fingerprint(self, indices: Tensor) -> bytes:
        """Return what the files tell of themselves, and which of them are chosen."""
        return self.files.fingerprint() + indices.contiguous().numpy().tobytes()
