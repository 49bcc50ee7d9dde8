"""Images and labels in a NumPy archive."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from archgrad.data.base import Data, LoadOptions
from archgrad.data.dataset import ImageData
from archgrad.data.labels import check_labels, numbered_classes
from archgrad.data.sources.base import DataSource, default_augmentation
from archgrad.errors import NoTestImagesError, UserError, reason, shown_names
from archgrad.system.files import existing_path, open_regular, shown_path
from archgrad.system.memory import check_images

__all__ = ["Npz"]

_MOST_BYTES = 4 << 30
_NAMES = {
    True: (("x_train", "train_images", "x", "images"), ("y_train", "train_labels", "y", "labels")),
    False: (("x_test", "test_images"), ("y_test", "test_labels")),
}


class Npz(DataSource):
    """A NumPy archive with the arrays x and y, or images and labels, or x_train and y_train.

    Images are [N, H, W], [N, H, W, C] or [N, C, H, W], as bytes or as floats in [0, 1] or [0, 255]. Arrays of Python
    objects, which could run code, are rejected.
    """

    takes_path: ClassVar[bool] = True

    def read(self, path: Path | None, options: LoadOptions) -> Data:
        """Read the arrays, and keep the chosen images."""
        file = existing_path(path or "", "archive")
        image_names, label_names = _NAMES[options.train]
        images, labels = _read(file, image_names), _labels(_read(file, label_names), file)
        if len(images) != len(labels):
            raise UserError(
                f"{shown_path(file)} has {len(images)} images but {len(labels)} labels; give one label per image."
            )
        name = f"npz:{file.name}"
        is_numbers = labels.is_floating_point()
        classes = () if is_numbers else numbered_classes(name, labels)
        if not is_numbers:
            check_labels(name, labels, classes, every=options.train)
        scale = _scale(images, file)
        chosen = options.choose(labels)
        pixels = _channels_first(_bytes(images[chosen.numpy()], scale), file)
        return options.resized(ImageData(name, pixels, labels[chosen], classes, default_augmentation(pixels)))


def _read(file: Path, names: tuple[str, ...]) -> NDArray[Any]:
    try:
        with open_regular(file, "archive") as packed, np.load(packed, allow_pickle=False) as archive:
            name = next((name for name in names if name in archive.files), None)
            if name is None:
                kind = NoTestImagesError if names in _NAMES[False] else UserError
                raise kind(
                    f"{shown_path(file)} has no array called {' or '.join(names)}; it has {shown_names(archive.files)}."
                )
            size = archive.zip.getinfo(f"{name}.npy").file_size
            if size > _MOST_BYTES:
                raise UserError(
                    f"the array {name!r} of {shown_path(file)} takes {size >> 20} MiB; the most is "
                    f"{_MOST_BYTES >> 20} MiB, so save fewer or smaller images."
                )
            check_images(size)
            array: NDArray[Any] = archive[name]
    except UserError:
        raise
    except Exception as problem:  # zip, compression and array header each raise their own errors
        raise UserError(
            f"{shown_path(file)} is truncated or is no NumPy archive ({reason(problem)}); save it again."
        ) from problem
    if array.dtype.kind not in "uif":
        raise UserError(
            f"the array {name!r} of {shown_path(file)} has the type {str(array.dtype)[:40]}; save it as integers or "
            f"floats."
        )
    return array


def _labels(array: NDArray[Any], file: Path) -> Tensor:
    """Return classes, int64 [N], or targets that are no classes, floats [N] or [N, K]."""
    flat = array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array
    if flat.ndim == 1 and flat.dtype.kind in "iu":
        return torch.from_numpy(flat.astype(np.int64))
    if flat.ndim not in (1, 2) or flat.dtype.kind not in "iufb" or 0 in flat.shape:
        raise UserError(
            f"the labels of {shown_path(file)} are {array.dtype} {list(array.shape)}; give one integer per image (for "
            f"one-hot rows, save labels.argmax(1)), or for other tasks numbers [N] or [N, K]."
        )
    return torch.from_numpy(flat.astype(np.float32))


def _scale(images: NDArray[Any], file: Path) -> int:
    """Return the factor from the file's values to [0, 255]; it depends on all images, so subsets scale alike."""
    if images.dtype == np.uint8 or images.size == 0:
        return 1
    low, high = images.min(), images.max()
    if not (low >= 0 and high <= 255):
        raise UserError(
            f"the images of {shown_path(file)} have values from {low} to {high}; give [0, 1], [0, 255] or bytes."
        )
    return 255 if images.dtype.kind == "f" and high <= 1 else 1


def _bytes(images: NDArray[Any], scale: int) -> NDArray[np.uint8]:
    if images.dtype == np.uint8:
        return images
    out = np.empty(images.shape, np.uint8)
    for source, target in zip(images, out, strict=True):
        target[...] = np.rint(source * scale)
    return out


def _channels_first(images: NDArray[np.uint8], file: Path) -> Tensor:
    """Return images as [N, C, H, W]."""
    pixels = torch.from_numpy(images)
    if pixels.ndim == 3:
        return pixels[:, None]
    first, last = (pixels.ndim == 4 and pixels.shape[axis] in (1, 3) for axis in (1, 3))
    if first == last:
        raise UserError(
            f"the images of {shown_path(file)} have the shape {list(images.shape)}; give [N, H, W], [N, H, W, C] or "
            f"[N, C, H, W] with 1 or 3 channels."
        )
    return pixels if first else pixels.permute(0, 3, 1, 2).contiguous()
