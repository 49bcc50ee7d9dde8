"""The metrics of a training run in a NAS-Bench-101 file.

A message ModelMetrics has three snapshots (field 1), the number of trainable parameters (2) and the total time (3). A
snapshot has, as doubles, the epoch (1), the seconds of training so far (2), and the accuracies on the training (3),
validation (4) and test images (5). Other fields are ignored.
"""

from __future__ import annotations

import math
import struct
from typing import NamedTuple

from archgrad.tables.nasbench101.protobuf import BYTES, DOUBLE, VARINT, Field, Malformed, fields

__all__ = ["Metrics", "Snapshot", "decode"]

_DOUBLE = struct.Struct("<d")
_SNAPSHOTS, _PARAMETERS = 1, 2
_IN_ORDER = struct.Struct("<BdBdBdBdBd")
_TAGS_IN_ORDER = tuple(number << 3 | DOUBLE for number in range(1, 6))
_NAMES = ("epoch", "training time", "training accuracy", "validation accuracy", "test accuracy")
_MOST = (1e9, 1e9, 1.0, 1.0, 1.0)


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
    for field in fields(message):
        if field[0] == _SNAPSHOTS:
            snapshots.append(_snapshot(_bytes(field)))
        elif field[0] == _PARAMETERS:
            parameters = _count(field)
    if len(snapshots) != 3:
        raise Malformed(f"its metrics have {len(snapshots)} snapshots, not 3")
    if parameters is None:
        raise Malformed("its metrics lack the number of trainable parameters")
    return Metrics(snapshots[0], snapshots[1], snapshots[2], parameters)


def _snapshot(message: bytes) -> Snapshot:
    found: dict[int, float] = {}
    if len(message) >= _IN_ORDER.size:  # fast path: the layout of all known files
        parts = _IN_ORDER.unpack_from(message)
        if parts[::2] == _TAGS_IN_ORDER:
            found, message = dict(enumerate(parts[1::2], start=1)), message[_IN_ORDER.size :]
    for number, wire, value in fields(message):
        if number <= len(_NAMES):
            if wire != DOUBLE or isinstance(value, int):
                raise Malformed(f"the {_NAMES[number - 1]} of a snapshot has the wire type {wire}, not {DOUBLE}")
            found[number] = _DOUBLE.unpack(value)[0]
    amounts = [found.get(number, math.nan) for number in range(1, len(_NAMES) + 1)]
    for number, (amount, most) in enumerate(zip(amounts, _MOST, strict=True), start=1):
        if not 0 <= amount <= most:
            told = amount if number in found else "missing"
            raise Malformed(f"the {_NAMES[number - 1]} of a snapshot is {told}")
    return Snapshot(*amounts)


def _bytes(field: Field) -> bytes:
    number, wire, value = field
    if wire != BYTES or isinstance(value, int):
        raise Malformed(f"field {number} of its metrics has the wire type {wire}, not {BYTES}")
    return value


def _count(field: Field) -> int:
    number, wire, value = field
    if wire != VARINT or not isinstance(value, int):
        raise Malformed(f"field {number} of its metrics has the wire type {wire}, not {VARINT}")
    if value >= 1 << 31:
        raise Malformed(f"its number of trainable parameters is {value}")
    return value
