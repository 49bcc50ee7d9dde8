"""The rows of a NAS-Bench-101 file, one per training run.

A record is a JSON list: the cell's hash, the number of epochs, the adjacency matrix as digits 0 and 1 row by row, the
operations separated by commas, and the metrics in base64.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from archgrad.errors import UserError, shortened
from archgrad.spaces.nasbench101 import Module
from archgrad.tables.nasbench101.metrics import Malformed, Metrics, decode
from archgrad.tables.nasbench101.tfrecord import damaged_record, read_records

__all__ = ["Row", "module_from", "read_rows"]

_HASH = re.compile(r"[0-9a-f]{32}")
_MATRIX = re.compile(r"[01]{4,49}")
_MOST_EPOCHS = 1_000_000


class Row(NamedTuple):
    """One training run of a cell; its record takes the bytes ``offset`` to ``end`` of the file."""

    offset: int
    end: int
    hash: str
    epochs: int
    matrix: str
    operations: str
    metrics: Metrics


def read_rows(path: Path) -> Iterator[Row]:
    """Yield the runs of a file; an error names the position of a bad record."""
    for offset, data in read_records(path):
        try:
            hash_, epochs, matrix, operations, packed = _fields(data)
            metrics = decode(base64.b64decode(packed.replace("\n", ""), validate=True))
        except Malformed as problem:
            raise damaged_record(path, offset, str(problem)) from None
        except binascii.Error as error:
            raise damaged_record(path, offset, f"its metrics are not base64 ({error})") from None
        yield Row(offset, offset + len(data) + 16, hash_, epochs, matrix, operations, metrics)


def module_from(matrix: object, operations: object) -> Module:
    """Return the module of a matrix and operations as a row has them; raise Malformed if there is none."""
    digits, names = _checked(matrix, operations)
    size = math.isqrt(len(digits))
    rows = (digits[start : start + size] for start in range(0, len(digits), size))
    try:
        return Module(tuple(tuple(map(int, row)) for row in rows), tuple(names.split(",")))
    except UserError as error:
        raise Malformed(f"its cell cannot be ({error})") from None


def _checked(matrix: object, operations: object) -> tuple[str, str]:
    if not isinstance(matrix, str) or not _MATRIX.fullmatch(matrix) or math.isqrt(len(matrix)) ** 2 != len(matrix):
        raise Malformed(f"its matrix is {shortened(matrix)}, not the digits 0 and 1 of a square of 2 to 7 rows")
    if not isinstance(operations, str):
        raise Malformed(f"its operations are {shortened(operations)}, not text")
    return matrix, operations


def _fields(data: bytes) -> tuple[str, int, str, str, str]:
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"it is not JSON ({error})") from None
    if not isinstance(content, list) or len(content) != 5:
        raise Malformed("it is not a list of hash, epochs, matrix, operations and metrics")
    hash_, epochs, matrix, operations, packed = content
    if not isinstance(hash_, str) or not _HASH.fullmatch(hash_):
        raise Malformed(f"its hash is {shortened(hash_)}, not 32 hexadecimal digits")
    if isinstance(epochs, bool) or not isinstance(epochs, int) or not 0 < epochs <= _MOST_EPOCHS:
        raise Malformed(f"its number of epochs is {shortened(epochs)}")
    if not isinstance(packed, str) or not packed.isascii():
        raise Malformed(f"its metrics are {shortened(packed)}, not base64")
    return hash_, epochs, *_checked(matrix, operations), packed
