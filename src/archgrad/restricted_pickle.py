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

__all__ = [
    "Dtype",
    "StandIn",
    "checked_key",
    "damaged",
    "plain_stand_in",
    "read_arrays",
    "read_plain",
    "refuse",
]

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
        raise damaged(name, problem) from problem


def _load(content: bytes, name: str, instructions: set[str] | None = None) -> object:
    try:
        _check(content, name, instructions)
        return _Reader(io.BytesIO(content), name).load()
    except UserError:
        raise
    except Exception as problem:  # a damaged stream can fail in any instruction, each with its own kind of error
        raise damaged(name, problem) from problem


def damaged(name: str, problem: Exception) -> UserError:
    """Return the error about a stream that cannot be read to its end."""
    return UserError(f"{name} is truncated or damaged ({problem or type(problem).__name__}); get the file again.")


def _forbidden(file: str, module: str, name: str) -> UserError:
    """Return the error about a file that names what no data file needs."""
    return UserError(
        f"{file} was refused: it asks to run {f'{module}.{name}'[:100]}, which no data file needs. "
        f"Nothing was run; get the file from a source you trust."
    )


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
            return StandIn(_Array)
        if (module, name) == ("numpy", "dtype"):
            return StandIn(Dtype)
        if (module, name) == ("_codecs", "encode"):
            return StandIn(_encode)
        if (module, name) == ("numpy", "ndarray"):
            return StandIn(refuse)  # only ever passed to _reconstruct
        raise _forbidden(self._name, module, name)


class StandIn:
    """A function that a pickle may call but, having slots and this __setstate__, cannot modify."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, *arguments: Any) -> Any:
        """Return what the function does."""
        return self._function(*arguments)

    def __setstate__(self, state: object) -> None:
        refuse()


class Dtype:
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
        """Return the real type."""
        return np.dtype((self._order if self._order in {"<", ">"} else "=") + self._code)


class _Array:
    """An array whose content comes with the state."""

    __slots__ = ("_value",)

    def __init__(self, *_: object) -> None:
        self._value: NDArray[Any] | None = None

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, dtype, fortran, content = state
        if not isinstance(dtype, Dtype) or not isinstance(content, bytes) or not isinstance(shape, tuple):
            refuse()
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
    """Return the bytes that protocol 2 writes as text."""
    if _text(encoding) not in {"latin1", "latin-1"}:
        refuse()
    return text.encode("latin1")


def refuse(*_: object) -> Any:
    """Raise the error about a call that no data need."""
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


def checked_key(key: Any) -> Any:
    """Return a key if it is a text, a number or a tuple of those: deeper ones could overflow the stack of Python."""
    parts = key if type(key) is tuple else (key,)
    if all(type(part) in {str, int} for part in parts):
        return key
    raise pickle.UnpicklingError(f"it has a {type(key).__name__} as a key")


def _mapping(content: object = None) -> dict[Any, Any]:
    """Stand for an OrderedDict or a Counter."""
    found: dict[Any, Any] = {} if content is None else content if type(content) is dict else refuse()
    return found


def _default_mapping(factory: object = None) -> dict[Any, Any]:
    return {}


def _set(items: object) -> set[Any]:
    return set(map(checked_key, items)) if type(items) is list else refuse()


def _scalar(dtype: object, content: object) -> float | int:
    """Stand for a number of numpy."""
    if type(dtype) is not Dtype or not isinstance(content, bytes) or len(content) != dtype.numpy().itemsize:
        return refuse()  # type: ignore[no-any-return]
    number: float | int = np.frombuffer(content, dtype.numpy())[0].item()
    return number


_BUILTINS = ("builtins", "__builtin__")
_PLAIN_STAND_INS = {
    ("collections", "OrderedDict"): StandIn(_mapping),
    ("collections", "Counter"): StandIn(_mapping),
    ("collections", "defaultdict"): StandIn(_default_mapping),
    ("numpy", "dtype"): StandIn(Dtype),
    ("_codecs", "encode"): StandIn(_encode),
    **{(module, "scalar"): StandIn(_scalar) for module in _MULTIARRAY},
    **{(module, "set"): StandIn(_set) for module in _BUILTINS},
    **{(module, kind): StandIn(refuse) for module in _BUILTINS for kind in ("dict", "float", "int", "list")},
}
"""What a name in a file stands for; the types at the end are only ever given to defaultdict, which ignores them."""


def plain_stand_in(file: str, module: str, name: str) -> StandIn:
    """Return what a name stands for in a file of dicts, lists and numbers; raise a UserError about any other name."""
    if module.startswith("torch") and (name.startswith(("_rebuild_", "_load_")) or name.endswith("Storage")):
        raise UserError(
            f"{file} holds trained weights ({f'{module}.{name}'[:100]}), which are not read; give the file or folder "
            f"without weights."
        )
    found = _PLAIN_STAND_INS.get((module, name))
    if found is None:
        raise _forbidden(file, module, name)
    return found
