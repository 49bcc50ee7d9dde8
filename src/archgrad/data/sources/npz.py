"""Images and labels in a NumPy archive."""

from __future__ import annotations

import io
import math
import zipfile
from pathlib import Path
from typing import IO, Any, ClassVar

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

_MOST_BYTES, _MOST_HEADER = 4 << 30, 1 << 16
_BOMB_BYTES, _BOMB_RATIO = 1 << 26, 200
"""An array that unpacks to so much, and to so many times its size, is refused."""
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
        with open_regular(file, "archive") as packed, zipfile.ZipFile(packed) as archive:
            members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}
            name = next((name for name in names if name in members), None)
            if name is None:
                kind = NoTestImagesError if names in _NAMES[False] else UserError
                raise kind(
                    f"{shown_path(file)} has no array called {' or '.join(names)}; it has {shown_names(members)}."
                )
            with archive.open(members[name]) as stream:  # a header may claim gigabytes: read only its beginning
                _check_header(io.BytesIO(stream.read(_MOST_HEADER)), members[name], file)
            with archive.open(members[name]) as stream:
                return np.lib.format.read_array(stream, allow_pickle=False)
    except UserError:
        raise
    except Exception as problem:  # zip, compression and array header each raise their own errors
        raise UserError(
            f"{shown_path(file)} is truncated or is no NumPy archive ({reason(problem)}); save it again."
        ) from problem


def _check_header(stream: IO[bytes], member: zipfile.ZipInfo, file: Path) -> None:
    """Reject arrays that could run code or exhaust the memory, before reading them."""
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(stream)
    if dtype.kind not in "uif":
        raise UserError(
            f"the array {member.filename[:40]!r} of {shown_path(file)} has the type {str(dtype)[:40]}; "
            f"save it as integers or floats."
        )
    size = math.prod(shape) * dtype.itemsize
    if size > _MOST_BYTES:
        raise UserError(
            f"the array {member.filename[:40]!r} of {shown_path(file)} takes {size >> 20} MiB; "
            f"the most is {_MOST_BYTES >> 20} MiB, so save fewer or smaller images."
        )
    if stream.tell() + size != member.file_size:
        raise UserError(f"the array {member.filename[:40]!r} of {shown_path(file)} is truncated; save it again.")
    if size > _BOMB_BYTES and size > _BOMB_RATIO * member.compress_size:
        raise UserError(
            f"the array {member.filename[:40]!r} of {shown_path(file)} unpacks from {member.compress_size} to {size} "
            f"bytes, which images never do; save it again."
        )
    check_images(size)


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
