"""The metrics of a training run, read from the protocol buffers of a NAS-Bench-101 file.

A message ModelMetrics has three snapshots (field 1), the number of trainable parameters (2) and the total time (3). A
snapshot has, as doubles, the epoch (1), the seconds of training so far (2), and the accuracies on the training (3),
validation (4) and test images (5). Other fields are ignored.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["Malformed", "Metrics", "Snapshot", "decode", "fields"]

_VARINT, _DOUBLE, _BYTES, _FOUR_BYTES = 0, 1, 2, 5
_LONGEST_VARINT = 10
_SNAPSHOTS, _PARAMETERS = 1, 2
_IN_ORDER = struct.Struct("<BdBdBdBdBd")
_TAGS_IN_ORDER = tuple(number << 3 | _DOUBLE for number in range(1, 6))
_NAMES = ("epoch", "training time", "training accuracy", "validation accuracy", "test accuracy")
_MOST = (1e9, 1e9, 1.0, 1.0, 1.0)


class Malformed(ValueError):  # noqa: N818 - the caller, who knows the file, makes a UserError of it
    """Bytes that are not what they should be, and why."""


class Snapshot(NamedTuple):
    """The results of a network at one epoch of its training; accuracies are from 0 to 1."""

    epoch: float
    seconds: float
    train: float
    valid: float
    test: float


class Metrics(NamedTuple):
    """The snapshots of a run at its start, on the way (halfway in the original files) and at its end."""

    start: Snapshot
    midway: Snapshot
    end: Snapshot
    parameters: int


def decode(message: bytes) -> Metrics:
    """Read a message ModelMetrics; raise Malformed if it or its numbers are invalid."""
    snapshots, parameters = [], None
    for number, wire, value in fields(message):
        wanted = {_SNAPSHOTS: _BYTES, _PARAMETERS: _VARINT}.get(number, wire)
        if wire != wanted:
            raise Malformed(f"field {number} of its metrics has the wire type {wire}, not {wanted}")
        if number == _SNAPSHOTS and isinstance(value, bytes):
            snapshots.append(_snapshot(value))
        elif number == _PARAMETERS:
            parameters = value
    if len(snapshots) != 3:
        raise Malformed(f"its metrics have {len(snapshots)} snapshots, not 3")
    if not isinstance(parameters, int):
        raise Malformed("its metrics lack the number of trainable parameters")
    if parameters >= 1 << 31:
        raise Malformed(f"its number of trainable parameters is {parameters}")
    return Metrics(snapshots[0], snapshots[1], snapshots[2], parameters)


def _snapshot(message: bytes) -> Snapshot:
    found: dict[int, float] = {}
    if len(message) >= _IN_ORDER.size:  # fast path: the layout of all known files
        parts = _IN_ORDER.unpack_from(message)
        if parts[::2] == _TAGS_IN_ORDER:
            found, message = dict(enumerate(parts[1::2], start=1)), message[_IN_ORDER.size :]
    for number, wire, value in fields(message):
        if number <= len(_NAMES):
            if wire != _DOUBLE or isinstance(value, int):
                raise Malformed(f"the {_NAMES[number - 1]} of a snapshot has the wire type {wire}, not {_DOUBLE}")
            (found[number],) = struct.unpack("<d", value)
    amounts = [found.get(number, math.nan) for number in range(1, len(_NAMES) + 1)]
    for number, (amount, most) in enumerate(zip(amounts, _MOST, strict=True), start=1):
        if not 0 <= amount <= most:
            shown = amount if number in found else "missing"
            raise Malformed(f"the {_NAMES[number - 1]} of a snapshot is {shown}")
    return Snapshot(*amounts)


def fields(message: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """Yield the number, the wire type and the value of each field of a message: a whole number, or bytes."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        number, wire = tag >> 3, tag & 7
        if not 1 <= number < 1 << 29:
            raise Malformed(f"a field has the number {number}")
        if wire not in (_VARINT, _DOUBLE, _BYTES, _FOUR_BYTES):
            raise Malformed(f"field {number} has the wire type {wire}")
        size = 8 if wire == _DOUBLE else 4
        if wire in (_VARINT, _BYTES):
            size, at = _varint(message, at)
        if wire == _VARINT:
            yield number, wire, size
            continue
        if at + size > len(message):
            raise Malformed(f"field {number} ends after {len(message) - at} of {size} bytes")
        yield number, wire, message[at : at + size]
        at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """Return the whole number at a position (seven bits per byte, lowest first) and the position after it."""
    value = 0
    for place, byte in enumerate(message[at : at + _LONGEST_VARINT]):
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            if value >= 1 << 64:
                break
            return value, at + place + 1
    if len(message) - at < _LONGEST_VARINT:
        raise Malformed("a whole number is cut off")
    raise Malformed("a whole number is longer than 64 bits")
