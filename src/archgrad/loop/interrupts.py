"""Ctrl-C and ``kill`` end a search between two steps, with a checkpoint."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["Interrupt", "interruptible"]


class Interrupt:
    """The signal that was received, 0 if none."""

    signal: int = 0


@contextmanager
def interruptible(enabled: bool = True) -> Iterator[Interrupt]:
    """Note SIGINT and SIGTERM instead of dying of them; a second one is obeyed at once.

    Signals can be caught in the main thread only; elsewhere, and where not enabled, nothing is changed. A signal that
    is ignored, as SIGINT is in a background job, stays ignored.
    """
    interrupt = Interrupt()
    if not enabled or threading.current_thread() is not threading.main_thread():
        yield interrupt
        return

    def note(number: int, frame: FrameType | None) -> None:
        interrupt.signal = number
        restore()

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    handlers = {int(number): signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    # None is a handler that was not installed from Python and could not be put back.
    before = {number: handler for number, handler in handlers.items() if handler not in (None, signal.SIG_IGN)}
    for number in before:
        signal.signal(number, note)
    try:
        yield interrupt
    finally:
        restore()
