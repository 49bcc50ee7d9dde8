"""The official file of NAS-Bench-101: records and their checksums, rows, and metrics in protocol buffers."""

from __future__ import annotations

import base64
import json
import math
import struct
import sys
from collections import Counter
from pathlib import Path

import pytest
from records101 import REAL, needs_real, write

from archgrad.errors import UserError
from archgrad.tables.nasbench101.official_file import mask_checksum, read_records, read_runs

DATA = (b"first", b"", b"third")


# --- records ------------------------------------------------------------------------------------------------------


def crc32c(data: bytes) -> int:
    """CRC-32C bit by bit, from its definition: the reflected polynomial 0x82F63B78."""
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF


def mask(value: int) -> bytes:
    return struct.pack("<I", ((value >> 15 | (value & 0x7FFF) << 17) + 0xA282EAD8) % 2**32)


def framed(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + mask(crc32c(length)) + data + mask(crc32c(data))


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return written(tmp_path / "some.tfrecord", b"".join(map(framed, DATA)))


STARTS = [sum(len(framed(data)) for data in DATA[:count]) for count in range(len(DATA) + 1)]


def test_the_checksum_is_that_of_the_standard() -> None:
    assert crc32c(b"123456789") == 0xE3069283  # the check value of CRC-32C
    assert struct.pack("<I", mask_checksum(crc32c(b"abc"))) == mask(crc32c(b"abc"))


def test_records_come_with_their_offsets(file: Path, tmp_path: Path) -> None:
    assert list(read_records(file)) == list(zip(STARTS, DATA, strict=False))
    long = b"x" * 70_000
    assert [data for _, data in read_records(written(tmp_path / "a", framed(long) * 2))] == [long, long]


def test_every_flipped_bit_is_noticed_with_the_offset_of_its_record(file: Path) -> None:
    good = file.read_bytes()
    for place in range(len(good)):
        start = max(offset for offset in STARTS[:-1] if offset <= place)
        for bit in range(8):
            bad = bytearray(good)
            bad[place] ^= 1 << bit
            file.write_bytes(bad)
            with pytest.raises(UserError) as caught:
                list(read_records(file))
            assert str(caught.value).startswith(f"{file}, record at byte {start}: "), (place, bit)


def test_every_cut_inside_a_record_is_noticed_with_its_offset(file: Path) -> None:
    good = file.read_bytes()
    for size in sorted(set(range(1, len(good))) - set(STARTS)):
        start = max(offset for offset in STARTS if offset < size)
        file.write_bytes(good[:size])
        with pytest.raises(UserError, match=rf"record at byte {start}: .* is cut off"):
            list(read_records(file))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b"", "is empty; give the path of a TFRecord file", id="empty"),
        pytest.param(b"\x1f\x8b\x08\x00" + bytes(100), "not an unpacked TFRecord file", id="gzip"),
        pytest.param(b"index,arch,cifar10_test\n0,1,2\n", "not an unpacked TFRecord file", id="csv"),
        pytest.param(b"short", "is cut off.* it is not an unpacked TFRecord file", id="short"),
        pytest.param(bytes(64), "not an unpacked TFRecord file", id="zeros"),
        pytest.param(
            framed(b"a") + struct.pack("<Q", 2**60) + mask(crc32c(struct.pack("<Q", 2**60))),
            "byte 17: its length is .* too large",
            id="length",
        ),
    ],
)
def test_foreign_files_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(UserError, match=message):
        list(read_records(written(tmp_path / "foreign", content)))


def test_a_missing_library_is_named_with_its_remedy(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google_crc32c", None)
    with pytest.raises(UserError, match=r'needs google-crc32c.*pip install "archgrad\[nasbench101\]"'):
        list(read_records(file))


# --- rows and metrics ---------------------------------------------------------------------------------------------

START, MIDWAY, END = (0.0, 0.0, 0.125, 0.1, 0.11), (54.0, 900.5, 0.75, 0.7, 0.71), (108.0, 1800.25, 1.0, 0.9, 0.91)
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
    return b"".join(chunk(1, snapshot(values)) for values in snapshots) + varint(2 << 3) + varint(parameters)


GOOD = message(START, MIDWAY, END)


def row(**changes: object) -> bytes:
    content = {"hash": HASH, "epochs": 108, "matrix": "0100", "operations": "input,output", "metrics": GOOD} | changes
    metrics = content["metrics"]
    content["metrics"] = base64.encodebytes(metrics).decode() if isinstance(metrics, bytes) else metrics
    return json.dumps(list(content.values())).encode()


def test_a_run_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "a", row(), row(epochs=36))
    (offset, first), (next_offset, second) = read_runs(path)
    assert first == (bytes.fromhex(HASH), 108, "0100", "input,output", 8_555_530, *END[1:])
    assert (offset, next_offset, second.epochs) == (0, len(row()) + 16, 36)


def test_unknown_fields_other_orders_and_repeated_values_are_read_as_protocol_buffers_are(tmp_path: Path) -> None:
    extra = chunk(9, b"gpu") + double(8, 1.0) + varint(12 << 3) + varint(2**64 - 1) + varint(7 << 3 | 5) + b"wxyz"
    turned = b"".join(double(number, value) for number, value in reversed(list(enumerate(END, start=1))))
    packed = (
        extra + chunk(1, snapshot(START) + chunk(6, b"path")) + chunk(1, snapshot(MIDWAY)) + varint(2 << 3) + b"\x05"
    )
    packed += extra + chunk(1, double(5, 0.5) + turned + extra) + varint(2 << 3) + b"\x06"
    ((_, run),) = read_runs(write(tmp_path / "a", row(metrics=packed)))
    assert run[4:] == (6, *END[1:])


def test_every_cut_of_the_metrics_is_refused(tmp_path: Path) -> None:
    for size in range(len(GOOD)):
        with pytest.raises(UserError, match="record at byte 0"):
            list(read_runs(write(tmp_path / "a", row(metrics=GOOD[:size]))))


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        (b"nothing", "line 1 column 1"),
        (b"[" * 100_000, "recursion"),
        (b"9" * 10_000, "digits"),
        (b"[1, 2]", "not enough values"),
        (row(hash=5), "fromhex"),
        (row(hash=HASH + "x"), "hexadecimal"),
        (row(epochs="108"), "cannot be interpreted as an integer"),
        (row(metrics=None), "has no attribute|NoneType"),
        (row(metrics="a!b="), "base64"),
        (row(metrics=message(START, END)), "have 2 snapshots"),
        (row(metrics=GOOD[:-5]), r"and \[\] parameters"),
        (row(metrics=message(START, MIDWAY, END, parameters=2**64 - 1)), r"and \[18446744"),
        (row(metrics=message(START, MIDWAY, END[:4])), "5"),
        (row(metrics=message(START, MIDWAY, (*END[:4], 1.5))), "accuracies .* 1.5"),
        (row(metrics=message(START, MIDWAY, (*END[:2], math.nan, 0.5, 0.5))), "accuracies .nan"),
        (row(metrics=message(START, MIDWAY, (1.0, math.inf, 0.5, 0.5, 0.5))), "after inf seconds"),
        (row(metrics=b"\x0b"), "field 1 of its metrics has the wire type 3"),
        (row(metrics=b"\x08" + b"\xff" * 10), "cut off or too long"),
        (row(metrics=b"\x0a\x05ab"), "field 1 of its metrics ends after 2 of 5 bytes"),
    ],
)
def test_foreign_rows_are_refused_with_file_and_offset(tmp_path: Path, record: bytes, problem: str) -> None:
    path = write(tmp_path / "some.tfrecord", row(), record)
    with pytest.raises(UserError, match=problem) as caught:
        list(read_runs(path))
    assert str(caught.value).startswith(f"{path}, record at byte {len(row()) + 16}: ")
    assert len(str(caught.value)) < len(str(path)) + 300


@needs_real
def test_the_real_file_is_read_whole() -> None:
    runs = [run for _, run in read_runs(REAL)]
    assert set(Counter((run.hash, run.epochs) for run in runs).values()) == {3}
    assert Counter(run.epochs for run in runs) == {4: 273, 12: 273, 36: 273, 108: 273}
    assert max(run.test for run in runs) == 0.9352964758872986
