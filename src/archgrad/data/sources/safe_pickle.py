"""Reading pickled dictionaries of lists and numeric arrays without running what is in them.

A pickle names the functions that rebuild its objects. Here the few names that an array needs stand for small
stand-ins of our own, and every other name is refused, so that not even numpy's own rebuilding code is reached.
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

__all__ = ["read_pickle"]

_MULTIARRAY = ("numpy.core.multiarray", "numpy._core.multiarray")


def read_pickle(content: bytes, name: str) -> dict[str, Any]:
    """Read a pickled dictionary with string keys; its arrays must be numeric. ``name`` is for the errors."""
    try:
        _check_sizes(content)
        value = _Reader(io.BytesIO(content), name).load()
        if not isinstance(value, dict):
            raise pickle.UnpicklingError(f"it holds a {type(value).__name__} and not a dictionary")
        return {_text(key): _plain(item) for key, item in value.items()}
    except UserError:
        raise
    except Exception as problem:  # a damaged stream can fail in any opcode, each with its own kind of error
        raise UserError(
            f"{name} is truncated or damaged ({problem or type(problem).__name__}); get the file again."
        ) from problem


def _check_sizes(content: bytes) -> None:
    """Refuse a stream that would make the parser reserve more memory than the stream itself is long."""
    for opcode, argument, _ in pickletools.genops(content):  # raises where a string is longer than what is left
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
