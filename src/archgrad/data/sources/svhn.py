"""SVHN: house numbers in MATLAB files of version 5.

Only what arrays of numbers need is read, and every size is checked first: SciPy's reader crashes the process on some
damaged files, and unpacks whatever a file claims.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from archgrad.data.augment import Augmentation
from archgrad.data.base import Data, LoadOptions, described
from archgrad.data.dataset import ImageData
from archgrad.data.labels import check_labels
from archgrad.data.sources.base import DataSource, file_of_part
from archgrad.errors import UserError, reason
from archgrad.system.files import read_regular, shown_path

__all__ = ["Svhn"]

_FILES = {True: "train_32x32.mat", False: "test_32x32.mat"}
_IMAGE = (32, 32, 3)
_CLASSES = tuple(map(str, range(10)))
_NOTHING = np.empty(0)
_MOST_BYTES, _MOST_UNPACKED = 1 << 28, 1 << 29
"""The published files have at most 182 MB, and unpack to 225."""
_HEADER, _LITTLE_ENDIAN = 128, b"IM"
_MATRIX, _COMPRESSED = 14, 15
_NUMBERS = {
    1: "i1", 2: "u1", 3: "<i2", 4: "<u2", 5: "<i4", 6: "<u4", 7: "<f4", 9: "<f8", 12: "<i8", 13: "<u8",
}  # fmt: skip
_NUMERIC_CLASSES, _IS_COMPLEX = range(6, 16), 8


class Svhn(DataSource):
    """SVHN, house numbers, color, 32×32, 10 classes: a folder with train_32x32.mat and test_32x32.mat.

    The label 10 of the files is the digit 0. Digits are cropped but not mirrored. ``extra_32x32.mat`` is not read.
    """

    takes_path: ClassVar[bool] = True

    def check(self, path: Path | None) -> None:
        """Reject a folder without the training images."""
        file_of_part("SVHN", path, _FILES, train=True)

    def read(self, path: Path | None, options: LoadOptions) -> Data:
        """Read the images [32, 32, 3, N] and labels [N, 1] of one file, and keep the chosen ones."""
        file = file_of_part("SVHN", path, _FILES, options.train)
        pixels, labels = _arrays(file)
        targets = _targets(labels, file)
        check_labels("svhn", targets, _CLASSES, every=options.train)
        chosen = options.choose(targets)
        images = torch.from_numpy(np.ascontiguousarray(pixels[..., chosen.numpy()].transpose(3, 2, 0, 1)))
        return options.resized(ImageData("svhn", images, targets[chosen], _CLASSES, Augmentation(crop_padding=4)))


def _arrays(file: Path) -> tuple[NDArray[np.uint8], NDArray[Any]]:
    """Return the images uint8 [32, 32, 3, N] and labels [N, 1]."""
    content = read_regular(file, "file of SVHN", _MOST_BYTES)
    try:
        found = _read_mat(content, ("X", "y"), _MOST_UNPACKED)
    except (ValueError, zlib.error) as problem:
        raise UserError(
            f"{shown_path(file)} is truncated or is no MATLAB file of SVHN ({reason(problem)}); get it again."
        ) from problem
    pixels, labels = found.get("X", _NOTHING), found.get("y", _NOTHING)
    if pixels.dtype != np.uint8 or pixels.shape[:-1] != _IMAGE or labels.shape != (pixels.shape[-1], 1):
        raise UserError(
            f"{shown_path(file)} has images X of {described(pixels)} and labels y of {described(labels)}, but those of "
            f"SVHN are uint8 [32, 32, 3, N] and [N, 1]; get the file again."
        )
    return pixels, labels


def _targets(labels: NDArray[Any], file: Path) -> Tensor:
    """Return the digits int64 [N] of the labels [N, 1], which are 1 to 10."""
    if not np.isin(labels, range(1, 11)).all():
        raise UserError(f"{shown_path(file)} is mislabeled: the labels of SVHN go from 1 to 10; get the file again.")
    return torch.from_numpy(labels[:, 0].astype(np.int64) % 10)


def _read_mat(content: bytes, names: Collection[str], most: int) -> dict[str, NDArray[Any]]:
    """Return the arrays with these names; all variables may unpack to ``most`` bytes. Raise a ValueError if it cannot.

    The bytes are shared with the content, or with its unpacked variables.
    """
    if content[_HEADER - 2 : _HEADER] != _LITTLE_ENDIAN:
        raise ValueError("it does not begin as a MAT-file of version 5")
    found, left = {}, most
    for kind, element in _elements(memoryview(content)[_HEADER:]):
        if kind == _COMPRESSED:
            unpacked = _unpack(element, left)
            left -= len(unpacked)
            kind, element = next(_elements(memoryview(unpacked)), (0, element))
        if kind != _MATRIX:
            raise ValueError(f"it has an element of kind {kind} where a variable belongs")
        parts = _elements(element)
        flags, shape, text = (part for _, part in islice(parts, 3))
        name = bytes(text).decode("latin1")
        if name in names:
            found[name] = _numbers(name, flags, shape, parts)
    return found


def _elements(content: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Yield kind and content of one element after the other: two numbers, then the content, filled to eight bytes.

    A content of up to four bytes stands in the place of the second number.
    """
    at = 0
    while at < len(content):
        if at + 8 > len(content):
            raise ValueError("it ends too early")
        kind, size = struct.unpack_from("<II", content, at)
        if kind >> 16:
            yield kind & 0xFFFF, content[at + 4 : at + 4 + min(kind >> 16, 4)]
            at += 8
            continue
        begin, end = at + 8, at + 8 + size
        if end > len(content):
            raise ValueError("it ends too early")
        yield kind, content[begin:end]
        at = end if kind == _COMPRESSED else begin + -(-size // 8) * 8


def _unpack(element: memoryview, most: int) -> bytes:
    unpacker = zlib.decompressobj()
    unpacked = unpacker.decompress(element, most + 1)
    if len(unpacked) > most:
        raise ValueError("it unpacks to more than the published files")
    if not unpacker.eof:
        raise ValueError("it ends too early")
    return unpacked


def _numbers(name: str, flags: memoryview, shape: memoryview, parts: Iterator[tuple[int, memoryview]]) -> NDArray[Any]:
    kind, numbers = next(parts, (0, flags))
    if len(flags) < 2 or flags[0] not in _NUMERIC_CLASSES or flags[1] & _IS_COMPLEX or kind not in _NUMBERS:
        raise ValueError(f"its variable {name} is no array of real numbers")
    sizes = np.frombuffer(shape, "<i4").tolist()
    return np.frombuffer(numbers, _NUMBERS[kind]).reshape(sizes, order="F")
