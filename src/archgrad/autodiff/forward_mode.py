"""Modes that change how a forward pass computes, and that a backward pass can enter again."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any

from torch.overrides import TorchFunctionMode

__all__ = ["ForwardMode", "open_modes", "save_modes"]

_local = threading.local()


class ForwardMode(TorchFunctionMode):
    """A mode that changes how functions are computed inside it.

    A backward pass that computes activations again does so outside the mode. :func:`save_modes` opens it there too.
    """

    def __enter__(self) -> Any:
        _stack().append(self)
        return super().__enter__()  # type: ignore[no-untyped-call]

    def __exit__(self, *error: Any) -> None:
        _stack().pop()
        super().__exit__(*error)  # type: ignore[no-untyped-call]

    @abstractmethod
    def repetition(self) -> Callable[[], TorchFunctionMode]:
        """Return what makes a mode that repeats the computations from here on."""

    def release_activations(self) -> None:
        """Keep no activations of the forward pass: the backward pass will compute them again."""


def open_modes() -> tuple[ForwardMode, ...]:
    """Return the modes that are open in this thread, the innermost last."""
    return tuple(_stack())


def save_modes() -> Callable[[], AbstractContextManager[Any]]:
    """Return a function that opens the present modes again, each where it is now."""
    repetitions = [mode.repetition() for mode in open_modes()]

    def reopen() -> AbstractContextManager[Any]:
        stack = ExitStack()
        for repetition in repetitions:
            stack.enter_context(repetition())
        return stack

    return reopen


def _stack() -> list[ForwardMode]:
    if not hasattr(_local, "modes"):
        _local.modes = []
    modes: list[ForwardMode] = _local.modes
    return modes
