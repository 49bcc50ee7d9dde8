"""Read the official TFRecord file of NAS-Bench-101 without TensorFlow, and without trusting it.

A record is its length (8 bytes, little-endian), the masked CRC-32C of those bytes (4), its data, and the masked CRC-32C
of the data (4). The mask rotates a checksum right by 15 bits and adds 0xa282ead8.

The data is a JSON list: the cell's hash, the number of epochs, the adjacency matrix as digits 0 and 1 row by row, the
operations separated by commas, and in base64 a protocol buffer ModelMetrics. That has three snapshots (field 1), the
last of them at the end of the training, and the number of trainable parameters (2). A snapshot has, as doubles, the
epoch (1), the seconds of training so far (2), and the accuracies on the training (3), validation (4) and test images
(5). Other fields are ignored.
"""

from __future__ import annotations

import base64
import json
import math
import operator
import re
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from archgrad.errors import DiskError, UserError, reason, shortened
from archgrad.spaces.nasbench101 import Module
from archgrad.system.files import open_regular

__all__ = ["TrainingRun", "mask_checksum", "module_from", "read_records", "read_runs"]

_LONGEST_RECORD = 1_000_000
"""The largest size of a record in bytes; those of NAS-Bench-101 have about a thousand."""
_HEAD, _FOOT = struct.Struct("<QI"), struct.Struct("<I")
_MATRIX = re.compile(r"[01]{4}|[01]{9}|[01]{16}|[01]{25}|[01]{36}|[01]{49}")
_VARINT, _DOUBLE, _BYTES, _FOUR_BYTES = 0, 1, 2, 5


class TrainingRun(NamedTuple):
    """The results at the end of one training of a cell; accuracies are from 0 to 1."""

    hash: bytes
    epochs: int
    matrix: str
    operations: str
    parameters: int
    seconds: float
    train: float
    valid: float
    test: float


def read_records(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the offset and the data of every record, after checking its checksums."""
    checksum, offset = _checksum(), 0
    try:
        with open_regular(path, "TFRecord file") as file:
            while head := file.read(_HEAD.size):
                length, check = _HEAD.unpack(head.ljust(_HEAD.size, b"\0"))
                if mask_checksum(checksum(head[:8])) != check or length > _LONGEST_RECORD:
                    raise _damaged(path, offset, "its length is cut off, too large or has a wrong checksum")
                data, foot = file.read(length), file.read(_FOOT.size)
                if foot != _FOOT.pack(mask_checksum(checksum(data))):
                    raise _damaged(path, offset, "its data is cut off or has a wrong checksum")
                yield offset, data
                offset += _HEAD.size + length + _FOOT.size
    except OSError as problem:
        said = problem.strerror or problem
        raise DiskError(f"{path} cannot be read at byte {offset} ({said}); copy it to another disk.") from problem
    if offset == 0:
        raise UserError(f"{path} is empty; give the path of a TFRecord file.")


def mask_checksum(checksum: int) -> int:
    """Return the masked form of a CRC-32C, as files store it."""
    return ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _damaged(path: Path, offset: int, problem: object) -> UserError:
    """Build the error for a bad record; if it is the first, the file is perhaps none of the benchmark."""
    fix = "the file is damaged, so fetch it again" if offset else "it is not an unpacked TFRecord file, or is damaged"
    return UserError(f"{path}, record at byte {offset}: {problem}; {fix}.")


def read_runs(path: Path) -> Iterator[tuple[int, TrainingRun]]:
    """Yield the offset of every record and its training run; an error names the offset of a bad record."""
    for offset, data in read_records(path):
        try:
            run = _run(data)
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError, struct.error) as problem:
            raise _damaged(path, offset, f"it describes no training ({reason(problem)})") from None
        yield offset, run


def module_from(matrix: str, operations: str) -> Module:
    """Return the module of a matrix and operations as a record has them; raise a ValueError if there is none."""
    if not _MATRIX.fullmatch(matrix):
        raise ValueError(f"its matrix is {shortened(matrix)}, not the digits 0 and 1 of a square of 2 to 7 rows")
    size = math.isqrt(len(matrix))
    rows = (matrix[start : start + size] for start in range(0, len(matrix), size))
    return Module(tuple(tuple(map(int, row)) for row in rows), tuple(operations.split(",")))


def _run(data: bytes) -> TrainingRun:
    """Return the run that a record describes: the last of three snapshots, and the number of parameters."""
    hash_, epochs, matrix, operations, metrics = json.loads(data)
    fields = list(_fields(base64.b64decode(metrics.replace("\n", ""), validate=True)))
    snapshots = [value for number, wire, value in fields if (number, wire) == (1, _BYTES)]
    parameters = [value for number, wire, value in fields if (number, wire) == (2, _VARINT)]
    if len(snapshots) != 3 or len(parameters) == 0 or parameters[-1] >= 1 << 31:
        raise ValueError(f"its metrics have {len(snapshots)} snapshots and {shortened(parameters)} parameters")
    end = {number: struct.unpack("<d", value)[0] for number, wire, value in _fields(snapshots[-1]) if wire == _DOUBLE}
    seconds, *accuracies = (end[number] for number in range(2, 6))
    if not 0 <= seconds < math.inf or not all(0 <= accuracy <= 1 for accuracy in accuracies):
        raise ValueError(f"it ends after {seconds} seconds with the accuracies {accuracies}")
    return TrainingRun(
        bytes.fromhex(hash_), operator.index(epochs), matrix, operations, parameters[-1], seconds, *accuracies
    )


def _fields(message: bytes) -> Iterator[tuple[int, int, Any]]:
    """Yield the number, the wire type and the value of each field of a protocol buffer: a whole number, or bytes."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            value, at = _varint(message, at)
            yield number, wire, value
            continue
        if wire == _BYTES:
            size, at = _varint(message, at)
        elif wire in (_DOUBLE, _FOUR_BYTES):
            size = 8 if wire == _DOUBLE else 4
        else:
            raise ValueError(f"field {number} of its metrics has the wire type {wire}")
        if at + size > len(message):
            raise ValueError(f"field {number} of its metrics ends after {len(message) - at} of {size} bytes")
        yield number, wire, message[at : at + size]
        at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """Return the whole number at a position (seven bits per byte, lowest first) and the position after it."""
    value = 0
    for place, byte in enumerate(message[at : at + 10]):
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value, at + place + 1
    raise ValueError("a whole number in its metrics is cut off or too long")


def _checksum() -> Callable[[bytes], int]:
    try:
        from google_crc32c import value
    except ImportError:
        raise UserError(
            "checking a TFRecord file needs google-crc32c, which is not installed; "
            'run: pip install "archgrad[nasbench101]"'
        ) from None
    found: Callable[[bytes], int] = value
    return found
