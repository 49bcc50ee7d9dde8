"""Read TFRecord files without TensorFlow.

A record is its length (8 bytes, little-endian), the masked CRC-32C of those bytes (4), its data, and the masked CRC-32C
of the data (4). The mask rotates a checksum right by 15 bits and adds 0xa282ead8, so that checksums inside data do not
check themselves.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple, NoReturn

from archgrad.errors import UserError

__all__ = ["LONGEST_RECORD", "Record", "damaged_record", "mask_checksum", "read_records"]

LONGEST_RECORD = 1_000_000
"""The largest size of a record in bytes; those of NAS-Bench-101 have about a thousand."""

_LENGTH = struct.Struct("<QI")
_CHECK = struct.Struct("<I")
_BUFFER = 1 << 20
_GZIP = b"\x1f\x8b"


class Record(NamedTuple):
    """The data of a record, and its position in the file."""

    offset: int
    data: bytes


def read_records(path: Path) -> Iterator[Record]:
    """Yield the records of a file, each after checking its checksums."""
    checksum = _checksum()
    try:
        if not path.is_file():
            raise UserError(f"{path} is {_what(path)}; give the path of a TFRecord file.")
        with path.open("rb", buffering=_BUFFER) as file:
            yield from _records(path, file, checksum)
    except (OSError, ValueError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"{path} cannot be read ({error}); check the path and its permissions.") from None


def mask_checksum(checksum: int) -> int:
    """Return the masked form of a CRC-32C, as files store it."""
    return ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF


def damaged_record(path: Path, offset: int, problem: str) -> UserError:
    """Build the error for a damaged record."""
    return UserError(f"{path}, record at byte {offset}: {problem}; the file is damaged, so fetch it again.")


def _records(path: Path, file: BinaryIO, checksum: Callable[[bytes], int]) -> Iterator[Record]:
    offset = 0
    while header := file.read(_LENGTH.size):
        if offset == 0 and header.startswith(_GZIP):
            raise UserError(f"{path}, record at byte 0: it is a gzip file; unpack it with gunzip first.")
        if len(header) < _LENGTH.size:
            _foreign_or(path, offset, f"its head ends after {len(header)} of {_LENGTH.size} bytes")
        length, check = _LENGTH.unpack(header)
        if mask_checksum(checksum(header[:8])) != check:
            _foreign_or(path, offset, "the checksum of its length is wrong")
        if length > LONGEST_RECORD:
            raise UserError(
                f"{path}, record at byte {offset}: its length is {length} bytes, but no record of NAS-Bench-101 is "
                f"longer than {LONGEST_RECORD}; give a TFRecord file of that benchmark."
            )
        data = file.read(length)
        if len(data) < length:
            raise damaged_record(path, offset, f"its data end after {len(data)} of {length} bytes")
        footer = file.read(_CHECK.size)
        if len(footer) < _CHECK.size:
            raise damaged_record(path, offset, f"its checksum ends after {len(footer)} of {_CHECK.size} bytes")
        if mask_checksum(checksum(data)) != _CHECK.unpack(footer)[0]:
            raise damaged_record(path, offset, "the checksum of its data is wrong")
        yield Record(offset, data)
        offset += _LENGTH.size + length + _CHECK.size
    if offset == 0:
        raise UserError(f"{path} is empty; give the path of a TFRecord file.")


def _foreign_or(path: Path, offset: int, problem: str) -> NoReturn:
    """Raise the error for a broken header; if it is the first, the file is probably not a TFRecord file."""
    if offset == 0:
        raise UserError(
            f"{path}, record at byte 0: it is not a TFRecord file, or is damaged ({problem}); give another."
        )
    raise damaged_record(path, offset, problem)


def _what(path: Path) -> str:
    return "a folder" if path.is_dir() else "no file that can be read" if path.exists() else "not there"


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
