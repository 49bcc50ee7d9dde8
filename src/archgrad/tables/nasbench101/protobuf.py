"""The wire format of protocol buffers: a message is a sequence of numbered fields of four types."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["BYTES", "DOUBLE", "VARINT", "Field", "Malformed", "fields"]

VARINT, DOUBLE, BYTES, _FOUR_BYTES = 0, 1, 2, 5
_LONGEST_VARINT = 10

Field = tuple[int, int, int | bytes]
"""The number of a field, its wire type, and its value: a whole number for VARINT, bytes for the others."""


class Malformed(ValueError):  # noqa: N818 - the caller, who knows the file, makes a UserError of it
    """Bytes that are not a valid message, and why."""


def fields(message: bytes) -> Iterator[Field]:
    """Yield the fields of a message in their order."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        number, wire = tag >> 3, tag & 7
        if not 1 <= number < 1 << 29:
            raise Malformed(f"a field has the number {number}")
        if wire == VARINT:
            value, at = _varint(message, at)
            yield number, wire, value
            continue
        if wire == DOUBLE:
            size = 8
        elif wire == BYTES:
            size, at = _varint(message, at)
        elif wire == _FOUR_BYTES:
            size = 4
        else:
            raise Malformed(f"field {number} has the wire type {wire}")
        if at + size > len(message):
            raise Malformed(f"field {number} ends after {len(message) - at} of {size} bytes")
        yield number, wire, message[at : at + size]
        at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """Return the whole number at a position (seven bits per byte, lowest first) and the position after it."""
    if at < len(message) and message[at] < 0x80:  # nearly all of them
        return message[at], at + 1
    value = 0
    for place, byte in enumerate(message[at : at + _LONGEST_VARINT]):
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            if value >= 1 << 64:
                break
            return value, at + place + 1
    if len(message) - at < _LONGEST_VARINT:
        raise Malformed("a whole number is cut off")
    raise Malformed("a whole number is longer than 64 bits")
