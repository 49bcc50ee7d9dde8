from __future__ import annotations

import struct
import sys
from pathlib import Path

import pytest

from archgrad.errors import UserError
from archgrad.tables.nasbench101.tfrecord import LONGEST_RECORD, Record, mask_checksum, read_records

DATA = (b"first", b"", b"third")


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


def offsets() -> list[int]:
    return [sum(len(framed(data)) for data in DATA[:count]) for count in range(len(DATA) + 1)]


def test_the_checksum_is_that_of_the_standard() -> None:
    assert crc32c(b"123456789") == 0xE3069283  # the check value of CRC-32C
    assert struct.pack("<I", mask_checksum(crc32c(b"abc"))) == mask(crc32c(b"abc"))


def test_records_come_with_their_offsets(file: Path) -> None:
    assert list(read_records(file)) == [Record(*pair) for pair in zip(offsets(), DATA, strict=False)]


def test_a_long_record_is_read(tmp_path: Path) -> None:
    data = b"x" * 70_000
    assert [record.data for record in read_records(written(tmp_path / "a", framed(data) * 2))] == [data, data]


def test_every_flipped_bit_is_noticed_with_the_offset_of_its_record(file: Path) -> None:
    good = file.read_bytes()
    starts = offsets()
    for place in range(len(good)):
        start = max(offset for offset in starts[:-1] if offset <= place)
        for bit in range(8):
            bad = bytearray(good)
            bad[place] ^= 1 << bit
            file.write_bytes(bad)
            with pytest.raises(UserError) as caught:
                list(read_records(file))
            assert str(caught.value).startswith(f"{file}, record at byte {start}: "), (place, bit)


def test_every_cut_inside_a_record_is_noticed_with_its_offset(file: Path) -> None:
    good = file.read_bytes()
    starts = offsets()
    for size in sorted(set(range(1, len(good))) - set(starts)):
        start = max(offset for offset in starts if offset < size)
        file.write_bytes(good[:size])
        with pytest.raises(UserError, match=rf"record at byte {start}: .*(ends?) after \d+ of \d+ bytes.*; "):
            list(read_records(file))


def test_what_comes_before_the_damage_is_read(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])
    reader = read_records(file)
    assert [next(reader).data for _ in DATA[:-1]] == list(DATA[:-1])
    with pytest.raises(UserError, match="its checksum ends after 3 of 4 bytes; the file is damaged, so fetch it again"):
        next(reader)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty; give the path of a TFRecord file"),
        (b"\x1f\x8b\x08\x00" + bytes(100), "it is a gzip file; unpack it with gunzip"),
        (b"index,arch,cifar10_test\n0,1,2\n", "it is not a TFRecord file"),
        (b"short", "it is not a TFRecord file.*ends after 5 of 12 bytes"),
        (bytes(64), "it is not a TFRecord file"),
    ],
)
def test_foreign_files_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(UserError, match=message):
        list(read_records(written(tmp_path / "foreign", content)))


def test_a_huge_length_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    length = struct.pack("<Q", 2**60)
    path = written(tmp_path / "huge", framed(b"a") + length + mask(crc32c(length)))
    with pytest.raises(UserError, match=rf"byte 17: its length is {2**60} bytes.*than {LONGEST_RECORD}"):
        list(read_records(path))


def test_paths_that_are_no_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is a folder; give the path"):
        list(read_records(tmp_path))
    with pytest.raises(UserError, match="is not there; give the path"):
        list(read_records(tmp_path / "absent"))


def test_a_file_that_may_not_be_read_is_told(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(UserError, match=r"cannot be read .*Permission denied.*; check the path and its permissions"):
        list(read_records(file))


def test_a_missing_library_is_named_with_its_remedy(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google_crc32c", None)
    with pytest.raises(UserError, match=r'needs google-crc32c.*pip install "archgrad\[nasbench101\]"'):
        list(read_records(file))
