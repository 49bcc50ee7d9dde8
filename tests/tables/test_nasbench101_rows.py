from __future__ import annotations

import base64
import json
import math
import os
import struct
from collections import Counter
from pathlib import Path

import pytest
from records101 import write

from archgrad.errors import UserError
from archgrad.tables.nasbench101.metrics import Malformed, Snapshot, decode, fields
from archgrad.tables.nasbench101.rows import read_rows

REAL = Path(os.environ.get("ARCHGRAD_DATA") or "absent", "nasbench101", "four-vertex.tfrecord")
needs_real = pytest.mark.skipif(
    not REAL.is_file(), reason="$ARCHGRAD_DATA/nasbench101/four-vertex.tfrecord is not there"
)

START, MIDWAY, END = (
    Snapshot(0.0, 0.0, 0.125, 0.1, 0.11),
    Snapshot(54.0, 900.5, 0.75, 0.7, 0.71),
    Snapshot(108.0, 1800.25, 1.0, 0.9, 0.91),
)
HASH = "0123456789abcdef0123456789abcdef"


def varint(value: int) -> bytes:
    low = value & 127
    return bytes([low]) if value < 128 else bytes([low | 128]) + varint(value >> 7)


def double(number: int, value: float) -> bytes:
    return varint(number << 3 | 1) + struct.pack("<d", value)


def chunk(number: int, value: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(value)) + value


def snapshot(values: tuple[float, ...]) -> bytes:
    return b"".join(double(number, value) for number, value in enumerate(values, start=1))


def message(*snapshots: tuple[float, ...], parameters: int = 8_555_530) -> bytes:
    chunks = b"".join(chunk(1, snapshot(values)) for values in snapshots)
    return chunks + varint(2 << 3) + varint(parameters) + double(3, 2000.0)


GOOD = message(START, MIDWAY, END)


def row(**changes: object) -> bytes:
    content = {
        "hash": HASH,
        "epochs": 108,
        "matrix": "0100",
        "operations": "input,output",
        "metrics": base64.encodebytes(GOOD).decode(),
    }
    return json.dumps(list((content | changes).values())).encode()


# --- the wire format ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 2**31 - 1, 2**63, 2**64 - 1])
def test_whole_numbers_come_back(value: int) -> None:
    assert list(fields(varint(7 << 3) + varint(value))) == [(7, 0, value)]


def test_all_wire_types_are_read() -> None:
    packed = chunk(1, b"ab") + double(2, 0.5) + varint(3 << 3 | 5) + b"wxyz" + varint(536870911 << 3) + b"\x05"
    assert list(fields(packed)) == [
        (1, 2, b"ab"), (2, 1, struct.pack("<d", 0.5)), (3, 5, b"wxyz"), (536870911, 0, 5),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("packed", "problem"),
    [
        (b"\x80", "cut off"),
        (b"\x08", "cut off"),
        (b"\x08\xff\xff", "cut off"),
        (b"\x08" + b"\xff" * 10, "longer than 64 bits"),
        (b"\x08" + b"\x80" * 10 + b"\x01", "longer than 64 bits"),
        (b"\x08" + b"\xff" * 9 + b"\x02", "longer than 64 bits"),
        (b"\x00\x01", "has the number 0"),
        (varint(2**29 << 3) + b"\x01", "has the number 536870912"),
        (b"\x0b", "field 1 has the wire type 3"),
        (b"\x0c", "field 1 has the wire type 4"),
        (b"\x0e", "field 1 has the wire type 6"),
        (b"\x0f", "field 1 has the wire type 7"),
        (b"\x09\x00\x00", "field 1 ends after 2 of 8 bytes"),
        (b"\x0d\x00", "field 1 ends after 1 of 4 bytes"),
        (b"\x0a\x05ab", "field 1 ends after 2 of 5 bytes"),
        (b"\x0a" + b"\xff" * 9 + b"\x01", r"field 1 ends after 0 of \d+ bytes"),
    ],
)
def test_malformed_bytes_are_refused(packed: bytes, problem: str) -> None:
    with pytest.raises(Malformed, match=problem):
        list(fields(packed))


# --- the metrics --------------------------------------------------------------------------------------------------


def test_metrics_come_back() -> None:
    assert decode(GOOD) == (START, MIDWAY, END, 8_555_530)


def test_unknown_fields_and_other_orders_change_nothing() -> None:
    extra = chunk(9, b"gpu") + double(8, 1.0) + varint(12 << 3) + varint(5)
    turned = b"".join(double(number, value) for number, value in reversed(list(enumerate(MIDWAY, start=1))))
    packed = extra + chunk(1, snapshot(START) + chunk(6, b"path")) + chunk(1, turned + extra) + extra
    packed += varint(2 << 3) + varint(5) + chunk(1, snapshot(END))
    assert decode(packed) == (START, MIDWAY, END, 5)


def test_the_last_of_two_values_counts_as_in_protocol_buffers() -> None:
    twice = message(START, MIDWAY, END)[: -len(double(3, 0))] + varint(2 << 3) + varint(6)
    assert decode(twice).parameters == 6
    packed = chunk(1, snapshot(START) + double(5, 0.5)) + GOOD[len(chunk(1, snapshot(START))) :]
    assert decode(packed).start.test == 0.5


def test_every_cut_is_refused_or_lacks_something() -> None:
    for size in range(len(GOOD) - len(double(3, 0))):
        with pytest.raises(Malformed):
            decode(GOOD[:size])


@pytest.mark.parametrize(
    ("packed", "problem"),
    [
        (b"", "have 0 snapshots, not 3"),
        (message(START, END), "have 2 snapshots, not 3"),
        (message(START, MIDWAY, END, END), "have 4 snapshots, not 3"),
        (message(START, MIDWAY, END)[: -len(double(3, 0)) - 5], "lack the number of trainable parameters"),
        (message(START, MIDWAY, END, parameters=2**64 - 1), "number of trainable parameters is 18446744073709551615"),
        (message(START, MIDWAY, END[:4]), "the test accuracy of a snapshot is missing"),
        (message(START, MIDWAY, (*END[:4], 1.5)), "the test accuracy of a snapshot is 1.5"),
        (message(START, MIDWAY, (*END[:3], -0.1, 0.5)), "the validation accuracy of a snapshot is -0.1"),
        (message(START, (*MIDWAY[:2], math.nan, 0.5, 0.5), END), "the training accuracy of a snapshot is nan"),
        (message((0.0, math.inf, 0.5, 0.5, 0.5), MIDWAY, END), "the training time of a snapshot is inf"),
        (varint(1 << 3) + varint(5), "field 1 of its metrics has the wire type 0, not 2"),
        (double(2, 5.0), "field 2 of its metrics has the wire type 1, not 0"),
        (chunk(1, varint(3 << 3) + varint(1)), "training accuracy of a snapshot has the wire type 0, not 1"),
    ],
)
def test_metrics_that_cannot_be_are_refused(packed: bytes, problem: str) -> None:
    with pytest.raises(Malformed, match=problem):
        decode(packed)


# --- the rows -----------------------------------------------------------------------------------------------------


def test_a_row_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "a", row(), row(epochs=36))
    first, second = read_rows(path)
    assert first[:6] == (0, len(row()) + 16, HASH, 108, "0100", "input,output")
    assert first.metrics == decode(GOOD)
    assert (second.offset, second.end, second.epochs) == (first.end, path.stat().st_size, 36)


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        (b"nothing", "it is not JSON"),
        (b"\xff\xfe\xff", "it is not JSON"),
        (b"[" * 100_000, "it is not JSON"),
        (b"9" * 10_000, "it is not JSON"),
        (b"{}", "not a list of hash, epochs, matrix, operations and metrics"),
        (b"[1, 2]", "not a list of hash"),
        (row(hash=5), "its hash is 5, not 32"),
        (row(hash=HASH.upper()), "its hash is '0123.*, not 32"),
        (row(hash=HASH + "0"), "not 32 hexadecimal digits"),
        (row(epochs=True), "its number of epochs is True"),
        (row(epochs=0), "its number of epochs is 0"),
        (row(epochs="108"), "its number of epochs is '108'"),
        (row(matrix="01000"), "its matrix is '01000', not the digits"),
        (row(matrix="0120"), "its matrix is '0120'"),
        (row(matrix="0" * 64), "its matrix is "),
        (row(matrix=[[0, 1], [0, 0]]), "its matrix is "),
        (row(operations=None), "its operations are None, not text"),
        (row(metrics=None), "its metrics are None, not base64"),
        (row(metrics="äöü"), "its metrics are 'äöü', not base64"),
        (row(metrics="a!b="), "its metrics are not base64"),
        (row(metrics="abc"), "its metrics are not base64"),
        (row(metrics=""), "its metrics have 0 snapshots"),
    ],
    ids=range(22),
)
def test_foreign_rows_are_refused_with_file_and_offset(tmp_path: Path, record: bytes, problem: str) -> None:
    path = write(tmp_path / "some.tfrecord", row(), record)
    with pytest.raises(UserError, match=problem) as caught:
        list(read_rows(path))
    assert str(caught.value).startswith(f"{path}, record at byte {len(row()) + 16}: ")
    assert len(str(caught.value)) < len(str(path)) + 300


@needs_real
def test_the_real_file_is_read_whole() -> None:
    rows = list(read_rows(REAL))
    assert len(rows) == 91 * 3 * 4
    assert rows[-1].end == REAL.stat().st_size
    assert set(Counter((row.hash, row.epochs) for row in rows).values()) == {3}
    assert Counter(row.epochs for row in rows) == {4: 273, 12: 273, 36: 273, 108: 273}
    assert {row.metrics.end.epoch == row.epochs for row in rows} == {True}
    assert max(rows, key=lambda row: row.metrics.end.test).metrics.end.test == 0.9352964758872986
