"""Reading pickled data without running what is in them.

A pickle is a program: it names functions and calls them to rebuild its objects. Here Python's own reader sees only
the instructions of plain data, in a bounded number. The few names that dicts and arrays need stand for functions of
our own, so that not even numpy's rebuilding code is reached. Every other name is refused.
"""

from __future__ import annotations

import io
import pickle
import pickletools
import re
from collections.abc import Callable, Mapping
from pickle import UnpicklingError
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from archgrad.errors import UserError

__all__ = ["damaged", "read_arrays", "read_plain"]

_INSTRUCTIONS = {
    "PROTO", "FRAME", "STOP", "MARK", "MEMOIZE", "BINPUT", "LONG_BINPUT", "BINGET", "LONG_BINGET", "NONE",
    "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "SHORT_BINSTRING", "BINSTRING",
    "SHORT_BINUNICODE", "BINUNICODE", "SHORT_BINBYTES", "BINBYTES", "EMPTY_DICT", "SETITEM", "SETITEMS",
    "EMPTY_LIST", "APPEND", "APPENDS", "EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "EMPTY_SET",
    "ADDITEMS", "GLOBAL", "STACK_GLOBAL", "REDUCE", "BUILD",
}  # fmt: skip
"""What dicts, lists, tuples, sets, strings, numbers and arrays need in protocols 2 to 5."""
_TUPLES, _PUTS = {"TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"}, {"BINPUT", "LONG_BINPUT"}
_MOST_INSTRUCTIONS = 2_000_000
"""The largest file that we read has 564,000; one instruction takes at most 224 bytes of memory beside its content."""
_MOST_TUPLES = 10_000
"""Python takes a piece of the stack for each tuple in a tuple to look up a key."""
_RENAMED = {"numpy.core.multiarray": "numpy._core.multiarray", "__builtin__": "builtins"}

_Names = Mapping[tuple[str, str], Callable[..., Any]]


def read_plain(content: bytes, name: str) -> Any:
    """Return the dicts, lists, tuples, sets, strings and numbers in a pickle; ``name`` is what errors call the file."""
    return _load(content, name, _PLAIN_NAMES)


def read_arrays(content: bytes, name: str) -> dict[str, Any]:
    """Return a pickled dictionary with string keys; its arrays must be numeric."""
    value = _load(content, name, _ARRAY_NAMES)
    try:
        if not isinstance(value, dict):
            raise UnpicklingError(f"it holds a {type(value).__name__} and not a dictionary")
        return {_text(key): _plain(item) for key, item in value.items()}
    except UnpicklingError as problem:
        raise damaged(name, problem) from problem


def _load(content: bytes, name: str, names: _Names) -> object:
    try:
        _check(content, name)
        return _Reader(content, name, names).load()
    except UserError:
        raise
    except Exception as problem:  # a damaged stream can fail in any instruction, each with its own kind of error
        raise damaged(name, problem) from problem


def damaged(name: str, problem: Exception) -> UserError:
    """Return the error about a stream that cannot be read to its end."""
    reason = str(problem)[:200] or type(problem).__name__
    return UserError(f"{name} is truncated or damaged ({reason}); get the file again.")


def _check(content: bytes, name: str) -> None:
    """Refuse unexpected instructions, and those that would reserve more memory or stack than data needs."""
    tuples = 0
    # genops raises where a string is longer than what is left.
    for count, (opcode, argument, position) in enumerate(pickletools.genops(content)):
        if opcode.name not in _INSTRUCTIONS:
            raise UserError(
                f"{name}, byte {position}: instruction {opcode.name} is not about dicts, lists, strings and numbers; "
                f"the file holds no plain data, so it is not read."
            )
        tuples += opcode.name in _TUPLES
        if count >= _MOST_INSTRUCTIONS or tuples > _MOST_TUPLES:
            raise UnpicklingError(f"it has more than {count} instructions, {tuples} of them for tuples")
        if opcode.name in _PUTS and isinstance(argument, int) and argument > count:
            raise UnpicklingError(f"it numbers an object {argument}")


class _Reader(pickle.Unpickler):
    def __init__(self, content: bytes, name: str, names: _Names) -> None:
        super().__init__(io.BytesIO(content), encoding="bytes")  # the files of CIFAR come from Python 2
        self._name, self._names, self._left = name, names, len(content)

    def find_class(self, module: str, name: str) -> Any:
        found = self._names.get((_RENAMED.get(module, module), name))
        if found is not None:
            return _StandIn(self._copying(found) if found in {_encode, _set} else found)
        asked = f"{module}.{name}"[:100]
        if module.split(".")[0] == "torch":
            raise UserError(f"{self._name} holds trained weights ({asked}), which are not read; give it without them.")
        raise UserError(
            f"{self._name} was refused: it asks to run {asked}, which no data file needs. Nothing was run; get the "
            f"file from a source you trust."
        )

    def _copying(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Let a function copy no more than the file holds: it could copy the same long text again and again."""

        def call(source: Any, *more: Any) -> Any:
            self._left -= len(source)
            return function(source, *more) if self._left >= 0 else _refuse()

        return call


class _StandIn:
    """A function that a pickle may call but, having slots and this __setstate__, cannot modify."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, *arguments: Any) -> Any:
        return self._function(*arguments)

    def __setstate__(self, state: object) -> None:
        _refuse()


class _Dtype:
    """The type of an array: a kind, a number of bytes, and a byte order that comes with the state."""

    __slots__ = ("_code", "_order")

    def __init__(self, code: bytes | str, *_: object) -> None:
        self._code, self._order = _text(code), "="
        if not re.fullmatch(r"[uif][1248]", self._code):
            raise UnpicklingError(f"it has an array of type {self._code!r}, and only numbers are read")

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._order = _text(state[1])

    def numbers(self, content: object) -> NDArray[Any]:
        """Return bytes as numbers of this type."""
        if not isinstance(content, bytes):
            _refuse()
        return np.frombuffer(content, (self._order if self._order in {"<", ">"} else "=") + self._code)


class _Array:
    """An array whose content comes with the state."""

    __slots__ = ("value",)

    def __init__(self, *_: object) -> None:
        self.value: NDArray[Any] | None = None

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, dtype, fortran, content = state
        if not isinstance(dtype, _Dtype):
            _refuse()
        self.value = dtype.numbers(content).reshape(shape, order="F" if fortran else "C")


def _encode(text: str, encoding: bytes | str) -> bytes:
    """Return the bytes that protocol 2 writes as text."""
    return text.encode("latin1") if _text(encoding) in {"latin1", "latin-1"} else _refuse()


def _mapping(content: object = None) -> dict[Any, Any]:
    """Stand for an OrderedDict, a Counter, or a defaultdict, whose factory is of no use here."""
    if content is None or isinstance(content, _StandIn):
        return {}
    return content if type(content) is dict else _refuse()


def _set(items: object) -> set[Any]:
    return set(items) if type(items) is list else _refuse()


def _scalar(dtype: object, content: object) -> float | int:
    """Stand for a number of numpy."""
    number: float | int = dtype.numbers(content).item() if isinstance(dtype, _Dtype) else _refuse()
    return number


def _refuse(*_: object) -> NoReturn:
    """Raise the error about a call that no data need."""
    raise UnpicklingError("it does what no array of numbers does")


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("latin1")
    if isinstance(value, str):
        return value
    raise UnpicklingError(f"it has a {type(value).__name__} where a name belongs")


def _plain(value: object) -> object:
    if isinstance(value, _Array) and value.value is not None:
        return value.value
    if isinstance(value, bytes | str | int | list):
        return value
    raise UnpicklingError(f"it holds a {type(value).__name__} without content")


_NUMBER_NAMES: _Names = {("numpy", "dtype"): _Dtype, ("_codecs", "encode"): _encode}
_ARRAY_NAMES: _Names = {
    **_NUMBER_NAMES,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("numpy", "ndarray"): _refuse,  # only ever given to _reconstruct
}
_PLAIN_NAMES: _Names = {
    **_NUMBER_NAMES,
    ("numpy._core.multiarray", "scalar"): _scalar,
    ("builtins", "set"): _set,
    **{("collections", kind): _mapping for kind in ("OrderedDict", "Counter", "defaultdict")},
    **{("builtins", kind): _refuse for kind in ("dict", "float", "int", "list")},  # only ever given to defaultdict
}
