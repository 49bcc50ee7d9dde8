"""Reading pickled plain data without unpickling it.

A pickle is a program for a small stack machine, and some of its instructions import and call whatever they name.
This reader knows fifteen instructions, those that build dicts, lists, strings and floats, and refuses every other one:
no file can make it import, call or construct anything else.
"""

from __future__ import annotations

import struct
from typing import Any

from archgrad.errors import UserError

__all__ = ["read_plain"]

_FLOAT = struct.Struct(">d")


def read_plain(data: bytes, name: str) -> object:
    """Return the dicts, lists, strings and floats that ``data`` describes; ``name`` is what errors call the file."""
    machine = _Machine(data)
    try:
        return machine.run()
    except _RefusedError as error:
        raise UserError(
            f"{name}, byte {machine.position}: {error}; it holds no plain table, so it is not read."
        ) from None
    except (IndexError, TypeError, AttributeError, ValueError, struct.error):
        raise UserError(f"{name}, byte {machine.position}: the file is cut off or damaged; install it again.") from None


class _RefusedError(Exception):
    """An instruction that is not about plain data."""


class _Machine:
    """The stack machine: ``stack`` grows by values, MARK opens a new one, APPENDS and SETITEMS close it."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def run(self) -> object:
        data, at = self.data, 0
        stack: list[Any] = []
        outer: list[list[Any]] = []
        memo: list[Any] = []
        # One chain, the most frequent instruction first: half a million instructions per file pass through it.
        while True:
            self.position = at
            code = data[at]
            at += 1
            if code == 0x47:  # BINFLOAT
                stack.append(_FLOAT.unpack_from(data, at)[0])
                at += 8
            elif code == 0x94:  # MEMOIZE
                memo.append(stack[-1])
            elif code == 0x28:  # MARK
                outer.append(stack)
                stack = []
            elif code == 0x5D:  # EMPTY_LIST
                stack.append([])
            elif code == 0x65:  # APPENDS
                items, stack = stack, outer.pop()
                _as(list, stack[-1]).extend(items)
            elif code == 0x68:  # BINGET
                stack.append(memo[data[at]])
                at += 1
            elif code == 0x8C:  # SHORT_BINUNICODE
                end = at + 1 + data[at]
                stack.append(data[at + 1 : end].decode())
                at = end
            elif code == 0x75:  # SETITEMS
                items, stack = stack, outer.pop()
                _as(dict, stack[-1]).update(zip(items[::2], items[1::2], strict=True))
            elif code == 0x7D:  # EMPTY_DICT
                stack.append({})
            elif code == 0x61:  # APPEND
                item = stack.pop()
                _as(list, stack[-1]).append(item)
            elif code == 0x73:  # SETITEM
                item, key = stack.pop(), stack.pop()
                _as(dict, stack[-1])[key] = item
            elif code == 0x6A:  # LONG_BINGET
                stack.append(memo[int.from_bytes(data[at : at + 4], "little")])
                at += 4
            elif code == 0x95:  # FRAME, a hint for buffered readers
                at += 8
            elif code == 0x80:  # PROTO
                at += 1
            elif code == 0x2E:  # STOP
                return stack.pop()
            else:
                raise _RefusedError(f"instruction 0x{code:02x} is not about dicts, lists, strings and floats")


def _as(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise TypeError
    return value
