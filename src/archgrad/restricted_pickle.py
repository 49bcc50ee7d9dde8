"""Reading pickled data without running what is in them.

A pickle is a program: it names functions and calls them to rebuild its objects. Two kinds of files are read here. One
holds dicts, lists, strings and floats, and may use the instructions for those only. The other holds dictionaries of
lists and numeric arrays: the few names that an array needs stand for small stand-ins of our own, so that not even
numpy's own rebuilding code is reached. Every other name is refused.
"""

from __future__ import annotations

import io
import math
import pickle
import pickletools
import re
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from archgrad.errors import UserError

__all__ = ["read_arrays", "read_plain"]

_MULTIARRAY = ("numpy.core.multiarray", "numpy._core.multiarray")
_PLAIN = {
    "BINFLOAT", "MEMOIZE", "MARK", "EMPTY_LIST", "APPENDS", "BINGET", "SHORT_BINUNICODE", "SETITEMS", "EMPTY_DICT",
    "APPEND", "SETITEM", "LONG_BINGET", "FRAME", "PROTO", "STOP",
}  # fmt: skip
"""The instructions that build dicts, lists, strings and floats."""


def read_plain(content: bytes, name: str) -> object:
    """Return the dicts, lists, strings and floats in a pickle; ``name`` is what errors call the file."""
    return _load(content, name, _PLAIN)


def read_arrays(content: bytes, name: str) -> dict[str, Any]:
    """Return a pickled dictionary with string keys; its arrays must be numeric."""
    value = _load(content, name)
    try:
        if not isinstance(value, dict):
            raise pickle.UnpicklingError(f"it holds a {type(value).__name__} and not a dictionary")
        return {_text(key): _plain(item) for key, item in value.items()}
    except pickle.UnpicklingError as problem:
        raise _damaged(name, problem) from problem


def _load(content: bytes, name: str, instructions: set[str] | None = None) -> object:
    try:
        _check(content, name, instructions)
        return _Reader(io.BytesIO(content), name).load()
    except UserError:
        raise
    except Exception as problem:  # a damaged stream can fail in any instruction, each with its own kind of error
        raise _damaged(name, problem) from problem


def _damaged(name: str, problem: Exception) -> UserError:
    return UserError(f"{name} is truncated or damaged ({problem or type(problem).__name__}); get the file again.")


def _check(content: bytes, name: str, instructions: set[str] | None) -> None:
    """Refuse unexpected instructions, and those that would reserve more memory than the stream itself is long."""
    for opcode, argument, position in pickletools.genops(content):  # raises where a string is longer than what is left
        if instructions is not None and opcode.name not in instructions:
            raise UserError(
                f"{name}, byte {position}: instruction {opcode.name} is not about dicts, lists, strings and floats; "
                f"the file holds no plain table, so it is not read."
            )
        if opcode.name.endswith("PUT") and isinstance(argument, int) and argument > len(content):
            raise pickle.UnpicklingError(f"it numbers an object {argument}")


class _Reader(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, name: str) -> None:
        super().__init__(file, encoding="bytes")  # the official files come from Python 2
        self._name = name

    def find_class(self, module: str, name: str) -> Any:
        if name == "_reconstruct" and module in _MULTIARRAY:
            return _StandIn(_Array)
        if (module, name) == ("numpy", "dtype"):
            return _StandIn(_Dtype)
        if (module, name) == ("_codecs", "encode"):
            return _StandIn(_encode)
        if (module, name) == ("numpy", "ndarray"):
            return _StandIn(_refuse)  # only ever passed to _reconstruct
        raise UserError(
            f"{self._name} was refused: it asks to run {module}.{name}, which no data file needs. "
            f"Nothing was run; get the file from a source you trust."
        )


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
        self._code = _text(code)
        self._order = "="
        if not re.fullmatch(r"[uif][1248]", self._code):
            raise pickle.UnpicklingError(f"it has an array of type {self._code!r}, and only numbers are read")

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._order = _text(state[1])

    def numpy(self) -> np.dtype[Any]:
        return np.dtype((self._order if self._order in {"<", ">"} else "=") + self._code)


class _Array:
    """An array whose content comes with the state."""

    __slots__ = ("_value",)

    def __init__(self, *_: object) -> None:
        self._value: NDArray[Any] | None = None

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, dtype, fortran, content = state
        if not isinstance(dtype, _Dtype) or not isinstance(content, bytes) or not isinstance(shape, tuple):
            _refuse()
        numbers = dtype.numpy()
        if any(not isinstance(size, int) or size < 0 for size in shape):
            raise pickle.UnpicklingError(f"it has an array of shape {shape}")
        if math.prod(shape) * numbers.itemsize != len(content):
            raise pickle.UnpicklingError(f"it has an array of shape {shape} with {len(content)} bytes")
        self._value = np.frombuffer(content, numbers).reshape(shape, order="F" if fortran else "C")

    def value(self) -> NDArray[Any]:
        if self._value is None:
            raise pickle.UnpicklingError("it has an array without content")
        return self._value


def _encode(text: str, encoding: bytes | str) -> bytes:
    if _text(encoding) not in {"latin1", "latin-1"}:
        _refuse()
    return text.encode("latin1")


def _refuse(*_: object) -> Any:
    raise pickle.UnpicklingError("it does what no array of numbers does")


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("latin1")
    if isinstance(value, str):
        return value
    raise pickle.UnpicklingError(f"it has a {type(value).__name__} where a name belongs")


def _plain(value: object) -> object:
    if isinstance(value, _Array):
        return value.value()
    if isinstance(value, bytes | str | int | list):
        return value
    raise pickle.UnpicklingError(f"it holds a {type(value).__name__}")
