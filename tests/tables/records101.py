"""Small files in the format of NAS-Bench-101, for several tests."""

from __future__ import annotations

import base64
import json
import os
import struct
from pathlib import Path

import google_crc32c
import pytest

from archgrad.spaces.nasbench101 import CONV1X1, CONV3X3, INPUT, MAXPOOL3X3, OUTPUT, Module
from archgrad.tables import convert_table
from archgrad.tables.nasbench101.official_file import mask_checksum

REAL = Path(os.environ.get("ARCHGRAD_DATA") or "absent", "nasbench101", "four-vertex.tfrecord")
needs_real = pytest.mark.skipif(
    not REAL.is_file(), reason="$ARCHGRAD_DATA/nasbench101/four-vertex.tfrecord is not there"
)
CHAIN = Module(((0, 1, 0), (0, 0, 1), (0, 0, 0)), (INPUT, CONV3X3, OUTPUT))
SKIP = Module(((0, 1), (0, 0)), (INPUT, OUTPUT))
PAIR = Module(((0, 1, 1, 0), (0, 0, 0, 1), (0, 0, 0, 1), (0, 0, 0, 0)), (INPUT, CONV1X1, MAXPOOL3X3, OUTPUT))
TURNED = Module(PAIR.matrix, (INPUT, MAXPOOL3X3, CONV1X1, OUTPUT))
"""The same cell as PAIR, drawn in another way."""


def record(
    module: Module, test: float, valid: float = 0.5, epochs: int = 108, parameters: int = 7, hash_: str | None = None
) -> bytes:
    """A run that ends with these accuracies; halfway it has half of them."""

    def snapshot(epoch: float, share: float) -> bytes:
        values = enumerate((epoch, 10 * epoch, 0.9 * share, valid * share, test * share), start=1)
        packed = b"".join(bytes([number << 3 | 1]) + struct.pack("<d", value) for number, value in values)
        return bytes([10, len(packed)]) + packed

    metrics = snapshot(0, 0.1) + snapshot(epochs / 2, 0.5) + snapshot(epochs, 1) + bytes([16, parameters])
    matrix = "".join(str(entry) for row in module.matrix for entry in row)
    text = base64.encodebytes(metrics).decode()
    return json.dumps([hash_ or module.hash, epochs, matrix, ",".join(module.operations), text]).encode()


def write(path: Path, *records: bytes) -> Path:
    def check(data: bytes) -> bytes:
        return struct.pack("<I", mask_checksum(google_crc32c.value(data)))

    def framed(data: bytes) -> bytes:
        length = struct.pack("<Q", len(data))
        return length + check(length) + data + check(data)

    path.write_bytes(b"".join(map(framed, records)))
    return path


def small(path: Path) -> Path:
    """Three cells; PAIR has three runs, SKIP two, and CHAIN one, which alone was trained for 36 epochs too."""
    return write(
        path,
        record(CHAIN, 0.9, 0.8),
        record(PAIR, 0.7, 0.95),
        record(PAIR, 0.75, 0.9),
        record(SKIP, 0.25, 0.25),
        record(SKIP, 0.5, 0.75),
        record(CHAIN, 0.5, epochs=36),
        record(TURNED, 0.8, 0.85),
    )


def converted(path: Path) -> Path:
    """The table of a TFRecord file, beside it."""
    convert_table(path, path.with_suffix(".parquet"))
    return path.with_suffix(".parquet")
