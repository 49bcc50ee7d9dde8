"""Reading a large pickle piece by piece, without running what is in it and without keeping most of its numbers.

Python's own reader keeps every object until the end: a file of 5 GB takes more than 25 GB of memory. This one knows
only the instructions that build dicts, lists, tuples, sets, texts and numbers. It keeps one copy of equal texts, and
of the floats only those under the keys that the caller asks for. It imports nothing: the few names that such files
need stand for functions of our own, and every other name is refused.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable
from pickle import UnpicklingError
from typing import Any, Protocol

from archgrad.errors import UserError
from archgrad.restricted_pickle import Dtype, StandIn, checked_key, damaged, plain_stand_in, refuse

__all__ = ["PickleStream"]

_CHUNK, _LONGEST = 1 << 23, 1 << 16
_MARGIN = _LONGEST + 16
"""Bytes at hand before each instruction, so that the longest one fits."""
_MOST_MEMORY = 8 << 30
_KEPT, _NOTED = 100, 8
"""Bytes of memory for a kept value, and for an entry in the list of values that later instructions may repeat."""
_double = struct.Struct(">d").unpack_from


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class PickleStream:
    """A file with one or more pickles of plain data.

    Dicts keep floats under the keys in ``wanted`` only, and lists keep none. ``most`` is the largest size of the
    unpacked data in bytes, ``name`` what errors call the file; ``on_read`` is called after each piece.
    """

    def __init__(
        self, file: _Readable, name: str, wanted: frozenset[str], most: int, on_read: Callable[[], object] | None = None
    ) -> None:
        self._file, self._name, self._wanted, self._most, self._on_read = file, name, wanted, most, on_read
        self._data, self._at, self._end, self._unpacked = b"", 0, 0, 0
        self._texts: dict[bytes, str] = {}
        self._start()

    def _start(self) -> None:
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: list[Any] = []
        self._kept = 0

    def load(self) -> Any:
        """Return the next pickled value; raise a UserError about anything that is not plain data."""
        self._start()
        try:
            return self._run()
        except UserError:
            raise
        except Exception as problem:  # a damaged stream can fail in any instruction, each with its own kind of error
            raise damaged(self._name, problem) from problem

    def _run(self) -> Any:
        """Obey the instructions up to the end of the pickle; the frequent ones stand here, because calls are slow."""
        stack, memo, texts = self._stack, self._memo, self._texts
        push, note = stack.append, memo.append
        data, at, end = self._data, self._at, self._end
        while True:
            while at >= end:
                self._at = at
                self._read()
                data, at, end = self._data, self._at, self._end
            code = data[at]
            at += 1
            if code == 0x47:  # BINFLOAT
                push(_double(data, at)[0])
                at += 8
            elif code == 0x72:  # LONG_BINPUT
                if int.from_bytes(data[at : at + 4], "little") != len(memo):
                    raise UnpicklingError("it does not number its objects in order")
                note(stack[-1])
                at += 4
            elif code == 0x94:  # MEMOIZE
                note(stack[-1])
            elif code == 0x58 or code == 0x8C:  # BINUNICODE, SHORT_BINUNICODE
                start = at + (4 if code == 0x58 else 1)
                at = start + int.from_bytes(data[at:start], "little")
                if at > len(data):
                    raise UnpicklingError(f"it has a text of {at - start} bytes")
                text = texts.get(data[start:at])
                push(self._new_text(data[start:at]) if text is None else text)
            elif code == 0x4B:  # BININT1
                push(data[at])
                at += 1
            elif code == 0x6A or code == 0x68:  # LONG_BINGET, BINGET
                start = at
                at += 4 if code == 0x6A else 1
                push(memo[int.from_bytes(data[start:at], "little")])
            elif code == 0x2E:  # STOP
                self._at = at
                return stack.pop()
            else:
                self._at = at
                self._obey(code)
                at = self._at

    def _read(self) -> None:
        """Read the next piece; refuse a file that unpacks to too much, or whose values take too much memory."""
        piece = self._file.read(_CHUNK)
        self._unpacked += len(piece)
        if self._unpacked > self._most:
            raise UserError(
                f"{self._name} unpacks to more than {self._most / 1e6:,.0f} MB, which no file of the benchmark does; "
                f"get the file from a source you trust."
            )
        memory = _KEPT * (self._kept + len(self._stack) + len(self._marks)) + _NOTED * len(self._memo)
        if memory > _MOST_MEMORY:
            raise UserError(
                f"{self._name} would take more than {_MOST_MEMORY / 1e9:.0f} GB of memory, which no file of the "
                f"benchmark does; get the file from a source you trust."
            )
        self._data, self._at = self._data[self._at :] + piece, 0
        self._end = len(self._data) - _MARGIN if piece else len(self._data)
        if not self._data:
            raise EOFError("it ends too early")
        if self._on_read is not None:
            self._on_read()

    def _new_text(self, content: bytes) -> str:
        self._kept += 2 + len(content) // (_KEPT // 2)
        return self._texts.setdefault(content, content.decode("utf-8", "surrogatepass"))

    def _obey(self, code: int) -> None:
        """Obey one of the rarer instructions."""
        self._kept += 1
        action = _BY_NUMBER.get(code)
        if action is None:
            raise UserError(
                f"{self._name} has the instruction {bytes((code,))!r}, which is not about dicts, lists, texts and "
                f"numbers; it is not a file of the benchmark, or it is damaged."
            )
        action(self)

    def take(self, size: int) -> bytes:
        """Return the next bytes of the file."""
        content = self._data[self._at : self._at + size]
        if len(content) < size:
            raise UnpicklingError(f"it ends within {size} bytes")
        self._at += size
        return content

    def take_number(self, width: int) -> int:
        """Return the next bytes as a whole number; one or two bytes have no sign."""
        return int.from_bytes(self.take(width), "little", signed=width > 2)

    def take_line(self) -> str:
        """Return the next bytes up to an end of line."""
        line = self.take(self._data.index(b"\n", self._at, self._at + _LONGEST) + 1 - self._at)
        return line[:-1].decode()

    def push(self, value: object) -> None:
        """Put a value on the stack."""
        self._stack.append(value)

    def pop_last(self, count: int) -> list[Any]:
        """Take the last values from the stack."""
        if len(self._stack) < count:
            raise UnpicklingError("it takes more values than it gives")
        values = self._stack[-count:]
        del self._stack[-count:]
        return values

    def mark(self) -> None:
        """Remember where the next values begin."""
        self._marks.append(len(self._stack))

    def pop_marked(self) -> list[Any]:
        """Take the values after the last mark from the stack."""
        start = self._marks.pop()
        values = self._stack[start:]
        del self._stack[start:]
        return values

    def note(self, number: int) -> None:
        """Give the last value its number, so that later instructions can repeat it."""
        if number != len(self._memo):
            raise UnpicklingError("it does not number its objects in order")
        self._memo.append(self._stack[-1])

    def set_items(self, items: list[Any]) -> None:
        """Add keys and values to the dict on the stack."""
        target = self._stack[-1]
        if type(target) is not dict:
            raise UnpicklingError(f"it sets an item of a {type(target).__name__}")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if type(value) is not float or (type(key) is str and key in self._wanted):
                target[checked_key(key)] = value
                self._kept += 1

    def append(self, items: list[Any]) -> None:
        """Add values to the list on the stack."""
        target = self._stack[-1]
        if type(target) is not list:
            raise UnpicklingError(f"it appends to a {type(target).__name__}")
        kept = [item for item in items if type(item) is not float]
        target.extend(kept)
        self._kept += len(kept)

    def add(self, items: list[Any]) -> None:
        """Add values to the set on the stack."""
        target = self._stack[-1]
        if type(target) is not set:
            raise UnpicklingError(f"it adds to a {type(target).__name__}")
        target.update(map(checked_key, items))
        self._kept += len(items)

    def find(self, module: str, name: str) -> None:
        """Put the stand-in for a name on the stack."""
        self.push(plain_stand_in(self._name, module, name))

    def call(self) -> None:
        """Replace a stand-in and its arguments by what it returns."""
        function, arguments = self.pop_last(2)
        if type(function) is not StandIn or type(arguments) is not tuple:
            refuse()
        self.push(function(*arguments))

    def build(self) -> None:
        """Give the type of a number its byte order."""
        (state,), target = self.pop_last(1), self._stack[-1]
        if type(target) is not Dtype:
            refuse()
        target.__setstate__(state)


_ACTIONS: dict[bytes, Callable[[PickleStream], object]] = {
    pickle.PROTO: lambda stream: stream.take(1),  # neither the protocol nor the lengths of frames say anything of use
    pickle.FRAME: lambda stream: stream.take(8),
    pickle.MARK: PickleStream.mark,
    pickle.BINPUT: lambda stream: stream.note(stream.take_number(1)),
    pickle.EMPTY_DICT: lambda stream: stream.push({}),
    pickle.EMPTY_LIST: lambda stream: stream.push([]),
    pickle.EMPTY_TUPLE: lambda stream: stream.push(()),
    pickle.EMPTY_SET: lambda stream: stream.push(set()),
    pickle.TUPLE: lambda stream: stream.push(tuple(stream.pop_marked())),
    pickle.TUPLE1: lambda stream: stream.push(tuple(stream.pop_last(1))),
    pickle.TUPLE2: lambda stream: stream.push(tuple(stream.pop_last(2))),
    pickle.TUPLE3: lambda stream: stream.push(tuple(stream.pop_last(3))),
    pickle.SETITEM: lambda stream: stream.set_items(stream.pop_last(2)),
    pickle.SETITEMS: lambda stream: stream.set_items(stream.pop_marked()),
    pickle.APPEND: lambda stream: stream.append(stream.pop_last(1)),
    pickle.APPENDS: lambda stream: stream.append(stream.pop_marked()),
    pickle.ADDITEMS: lambda stream: stream.add(stream.pop_marked()),
    pickle.NONE: lambda stream: stream.push(None),
    pickle.NEWTRUE: lambda stream: stream.push(True),
    pickle.NEWFALSE: lambda stream: stream.push(False),
    pickle.BININT2: lambda stream: stream.push(stream.take_number(2)),
    pickle.BININT: lambda stream: stream.push(stream.take_number(4)),
    pickle.LONG1: lambda stream: stream.push(stream.take_number(stream.take_number(1))),
    pickle.SHORT_BINBYTES: lambda stream: stream.push(stream.take(stream.take_number(1))),
    pickle.GLOBAL: lambda stream: stream.find(stream.take_line(), stream.take_line()),
    pickle.STACK_GLOBAL: lambda stream: stream.find(*stream.pop_last(2)),
    pickle.REDUCE: PickleStream.call,
    pickle.BUILD: PickleStream.build,
}
_BY_NUMBER = {code[0]: action for code, action in _ACTIONS.items()}
