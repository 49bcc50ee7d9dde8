"""Files that would hang a reader, fill its memory or break its numbers are answered with a sentence."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path

import google_crc32c
import pytest
from records101 import write

from archgrad.errors import UserError
from archgrad.spaces.nasbench201_cells import codes_by_name
from archgrad.tables import convert_table, open_cells, open_table
from archgrad.tables.nasbench101.official_file import mask_checksum

HEADER = "arch,cifar10_test,cifar100_test,imagenet16_test\n"
CELL = next(iter(codes_by_name()))


def _convert(path: str | Path) -> object:
    return convert_table(path, Path(path).with_name("table.parquet"))


OPEN = {".csv": open_table, ".parquet": open_cells, ".tfrecord": _convert}


def text(content: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(content)


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


def record_of(length: int) -> Callable[[Path], object]:
    """A record whose length has a right checksum, and whose data are missing."""
    packed = struct.pack("<Q", length)
    return lambda path: path.write_bytes(packed + struct.pack("<I", mask_checksum(google_crc32c.value(packed))))


def records(*data: bytes) -> Callable[[Path], object]:
    return lambda path: write(path, *data)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize(
    ("name", "make", "problem"),
    [
        ("fifo.csv", os.mkfifo, "is a pipe"),
        ("fifo.tfrecord", os.mkfifo, "is a pipe"),
        ("fifo.parquet", os.mkfifo, "is a pipe"),
        ("device.csv", endless, "is a device"),
        ("device.tfrecord", endless, "is a device"),
        ("device.parquet", endless, "is a device"),
        ("sparse.csv", sparse, "at most 100,000,000 are read"),
        ("sparse.tfrecord", sparse, "not an unpacked TFRecord file, or is damaged"),
        ("sparse.parquet", sparse, "is not a table of NAS-Bench-101"),
        ("nan.csv", text(f"{HEADER}{CELL},nan,1,1"), "'nan' is not an accuracy"),
        ("length.tfrecord", record_of(2**63), "its length is cut off, too large"),
        ("short.tfrecord", record_of(999_999), "its data is cut off"),
        ("nested.tfrecord", records(b"[" * 900_000), "recursion"),
    ],
)
def test_hostile_files_are_answered_with_a_sentence(
    tmp_path: Path, name: str, make: Callable[[Path], object], problem: str
) -> None:
    make(tmp_path / name)
    with pytest.raises(UserError, match=problem) as caught:
        OPEN[Path(name).suffix](tmp_path / name)
    assert len(str(caught.value)) < len(str(tmp_path)) + 400
