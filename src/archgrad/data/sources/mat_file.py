"""Arrays of numbers in a MATLAB file of version 5.

Only what such arrays need is read, and every size is checked first: SciPy's reader crashes the process on some damaged
files, and unpacks whatever a file claims.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Collection, Iterator
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["read_mat"]

_HEADER, _LITTLE_ENDIAN = 128, b"IM"
_MATRIX, _COMPRESSED = 14, 15
_NUMBERS = {
    1: "i1", 2: "u1", 3: "<i2", 4: "<u2", 5: "<i4", 6: "<u4", 7: "<f4", 9: "<f8", 12: "<i8", 13: "<u8",
}  # fmt: skip
_NUMERIC_CLASSES, _IS_COMPLEX = range(6, 16), 8


def read_mat(content: bytes, names: Collection[str], most: int) -> dict[str, NDArray[Any]]:
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
            found[name] = _array(name, flags, shape, parts)
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


def _array(name: str, flags: memoryview, shape: memoryview, parts: Iterator[tuple[int, memoryview]]) -> NDArray[Any]:
    kind, numbers = next(parts, (0, flags))
    if len(flags) < 2 or flags[0] not in _NUMERIC_CLASSES or flags[1] & _IS_COMPLEX or kind not in _NUMBERS:
        raise ValueError(f"its variable {name} is no array of real numbers")
    sizes = np.frombuffer(shape, "<i4").tolist()
    return np.frombuffer(numbers, _NUMBERS[kind]).reshape(sizes, order="F")
