"""Pack cells and runs into few bytes without loss."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from itertools import chain
from typing import NamedTuple

from archgrad.spaces.nasbench101 import CONV1X1, CONV3X3, INPUT, MAXPOOL3X3, MOST_VERTICES, OUTPUT, Module
from archgrad.tables.nasbench101.protobuf import Malformed
from archgrad.tables.nasbench101.run_metrics import Snapshot

__all__ = ["Run", "pack_module", "pack_runs", "unpack_module", "unpack_runs"]

_LETTERS = {CONV3X3: "3", CONV1X1: "1", MAXPOOL3X3: "m"}
_OPERATIONS = {letter: operation for operation, letter in _LETTERS.items()}
_VALUES = 2 * len(Snapshot._fields)
_SHORT, _LONG = "f", "d"


class Run(NamedTuple):
    """The results of a training run, halfway and at its end."""

    midway: Snapshot
    end: Snapshot


def pack_module(module: Module) -> tuple[int, str]:
    """Return the bits above the diagonal, row by row, as a number, and a letter for each interior vertex."""
    bits = 0
    for vertex, row in enumerate(module.matrix):
        for entry in row[vertex + 1 :]:
            bits = bits << 1 | entry
    return bits, "".join(_LETTERS[operation] for operation in module.operations[1:-1])


def unpack_module(bits: object, letters: object) -> Module:
    """Return the packed module; raise Malformed if the values are not valid."""
    if not isinstance(letters, str) or len(letters) > MOST_VERTICES - 2 or not set(letters) <= set(_OPERATIONS):
        raise Malformed("the operations of a cell are invalid")
    size = len(letters) + 2
    if not isinstance(bits, int) or not 0 <= bits < 1 << size * (size - 1) // 2:
        raise Malformed("the matrix of a cell is invalid")
    matrix = [[0] * size for _ in range(size)]
    for row in reversed(range(size)):
        for column in reversed(range(row + 1, size)):
            bits, matrix[row][column] = bits >> 1, bits & 1
    operations = (INPUT, *(_OPERATIONS[letter] for letter in letters), OUTPUT)
    return Module(tuple(map(tuple, matrix)), operations)


def pack_runs(runs: Iterable[Run]) -> bytes:
    """Return a letter for the precision, then the numbers of all runs; four bytes each if that is exact."""
    values = [value for midway, end in runs for value in (*midway, *end)]
    short = struct.pack(f"<{len(values)}{_SHORT}", *values)
    if struct.unpack(f"<{len(values)}{_SHORT}", short) == tuple(values):
        return _SHORT.encode() + short
    return _LONG.encode() + struct.pack(f"<{len(values)}{_LONG}", *values)


def unpack_runs(packed: object) -> tuple[Run, ...]:
    """Return the packed runs, at least one; raise Malformed if the bytes are not valid."""
    if not isinstance(packed, bytes) or packed[:1] not in (_SHORT.encode(), _LONG.encode()):
        raise Malformed("the runs of a cell cannot be read")
    one = struct.Struct(f"<{_VALUES}{packed[:1].decode()}")
    if len(packed) == 1 or (len(packed) - 1) % one.size:
        raise Malformed(f"the runs of a cell take {len(packed)} bytes")
    each = list(one.iter_unpack(packed[1:]))
    if not all(map(math.isfinite, chain.from_iterable(each))):
        raise Malformed("the runs of a cell contain invalid numbers")
    half = len(Snapshot._fields)
    return tuple(Run(Snapshot(*values[:half]), Snapshot(*values[half:])) for values in each)
