"""Signals end a search between two steps, with a checkpoint and a message."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from archgrad.distributed.processes import largest
from archgrad.errors import DivergedError, ProcessLostError, SearchInterrupted
from archgrad.loop.folder import RunFolder
from archgrad.loop.state import SearchState

__all__ = ["Interrupt", "catch_signals", "diverged", "interrupted", "lost"]


class Interrupt:
    """The received signal, 0 if none."""

    signal: int = 0

    def agreed(self) -> int:
        """Return a signal that any process has received; all processes must ask at the same point."""
        self.signal = largest(self.signal)
        return self.signal


@contextmanager
def catch_signals(enabled: bool) -> Iterator[Interrupt]:
    """Record SIGINT and SIGTERM instead of ending the process; a second signal ends it at once.

    Only the main thread can catch signals; elsewhere, or if not enabled, nothing changes. An ignored signal, such as
    SIGINT in a background job, stays ignored.
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


def diverged(message: str, folder: RunFolder | None) -> DivergedError:
    """Return the error with the place of the last good checkpoint, if there is a folder."""
    if folder is None:
        return DivergedError(message)
    return DivergedError(
        f"{message} The last good checkpoint is kept in {folder.checkpoints.current}; `archgrad resume {folder.home}` "
        f"would come to the same point, because it repeats the search with the same settings."
    )


def lost(error: ProcessLostError, folder: RunFolder | None) -> ProcessLostError:
    """Return the error with how to continue, if there is a folder."""
    if folder is None:
        return error
    return ProcessLostError(
        f"{error} `archgrad resume {folder.home}` continues from the last checkpoint, with any number of processes."
    )


def interrupted(state: SearchState, folder: RunFolder, number: int) -> SearchInterrupted:
    """Return an exception that says where the search stopped and how to continue it."""
    place = f"epoch {state.epoch} of {state.epochs}"
    if state.complete and folder.part is None:
        return SearchInterrupted(
            f"stopped after {place}; the search is complete, its result is in {folder.path}.", number
        )
    if state.step:
        place = f"step {state.step} of {state.steps} in epoch {state.epoch + 1} of {state.epochs}"
    place += "" if folder.part is None else f" of {folder.part}"
    return SearchInterrupted(f"stopped after {place}; continue with `archgrad resume {folder.home}`.", number)
