"""Reading pickled data without running what is in it.

A pickle is a program: it names functions and calls them to rebuild its objects. Python's own reader asks here for each
name. The few that arrays of numbers need stand for classes of our own, so that not even numpy's rebuilding code is
reached. Every other name is refused.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np
from numpy.typing import NDArray

from archgrad.errors import UserError, reason

__all__ = ["read_pickle"]


def read_pickle(content: bytes, name: str) -> dict[str, Any]:
    """Return a pickled dictionary of plain values and arrays of numbers; ``name`` is what errors call the file."""
    try:
        found = _Reader(content, name).load()
        if not isinstance(found, dict):
            raise pickle.UnpicklingError(f"it holds a {type(found).__name__} and not a dictionary")
        return {_text(key): value.content if isinstance(value, _Array) else value for key, value in found.items()}
    except UserError:
        raise
    except Exception as problem:  # a damaged stream can fail in any instruction, each with its own kind of error
        raise UserError(f"{name} is truncated or damaged ({reason(problem)}); get the file again.") from problem


class _Reader(pickle.Unpickler):
    def __init__(self, content: bytes, name: str) -> None:
        super().__init__(io.BytesIO(content), encoding="bytes")  # the files of CIFAR come from Python 2
        self._name = name

    def find_class(self, module: str, name: str) -> Any:
        """Return what stands for a name."""
        match module.replace("numpy._core", "numpy.core"), name:
            case "numpy", "dtype":
                return _Dtype
            case "numpy.core.multiarray", "_reconstruct":
                return _Array
            case "numpy", "ndarray":
                return None  # only ever given to _reconstruct
            case "_codecs", "encode":  # how protocol 2 writes bytes
                return lambda text, encoding: text.encode("latin1")
        raise UserError(
            f"{self._name} was refused: it asks to run {f'{module}.{name}'[:100]}, which no data file needs. Nothing "
            f"was run; get the file from a source you trust."
        )


class _Dtype:
    """The type of an array; its byte order comes with the state."""

    def __init__(self, code: bytes | str, *_: object) -> None:
        self.type = np.dtype(_text(code))
        if self.type.kind not in "uif":
            raise pickle.UnpicklingError(f"it has an array of type {self.type}, and only numbers are read")

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.type = self.type.newbyteorder(_text(state[1]))  # type: ignore[arg-type]


class _Array:
    """An array whose content comes with the state."""

    def __init__(self, *_: object) -> None:
        self.content: NDArray[Any] = np.empty(0)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, dtype, in_columns, content = state
        self.content = np.frombuffer(content, dtype.type).reshape(shape, order="F" if in_columns else "C")


def _text(value: object) -> str:
    return value.decode("latin1") if isinstance(value, bytes) else str(value)
