"""Processes that read batches ahead of time."""

from __future__ import annotations

import ctypes
import itertools
import os
import pickle
import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing import get_start_method
from multiprocessing.process import BaseProcess
from multiprocessing.util import Finalize
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from archgrad.errors import UserError, reason

__all__ = ["WorkerProcesses"]

_AHEAD = 2
"""The batches that each process reads ahead."""
_PR_SET_PDEATHSIG = 1
_LEFT_TO_MAIN = (signal.SIGINT, signal.SIGTERM)


class _Batches(Protocol):
    def __getitem__(self, index: int) -> Tensor: ...


class WorkerProcesses:
    """Batches by number, read by processes of a :class:`torch.utils.data.DataLoader`.

    The processes read batch after batch. They start with the first batch that is asked for, and again where the numbers
    do not follow each other. Any number of processes gives the same batches, because each is a function of its number.
    """

    def __init__(self, batches: _Batches, count: int, pinned: bool = False) -> None:
        self._batches, self._count, self._pinned = _ErrorsAsText(batches), count, pinned
        self._iterator: Any = None
        self._next = 0

    def __getitem__(self, index: int) -> Tensor:
        if self._iterator is None or self._next != index:
            self.close()
            self._start(index)
        try:
            found, self._next = next(self._iterator), index + 1
        except (OSError, EOFError, RuntimeError) as error:  # a process died, perhaps while it sent a batch
            if isinstance(error, RuntimeError) and not str(error).startswith("DataLoader worker"):
                raise
            raise UserError(
                f"a process that reads the data was lost ({reason(error)}), often for want of memory, or of room in "
                f"the folder /dev/shm; give fewer workers."
            ) from error
        if isinstance(found, str):
            raise UserError(found)
        batch: Tensor = found
        return batch

    def close(self) -> None:
        """End the processes, whatever they are doing: they only read."""
        if self._iterator is not None:
            self._kill()
            self._iterator = None

    def _start(self, index: int) -> None:
        """Let the processes read from batch ``index`` on."""
        with warnings.catch_warnings():  # more processes than cores may be right where they wait for a disk
            warnings.simplefilter("ignore")
            parent = None if get_start_method() == "forkserver" else os.getpid()
            loader = DataLoader(
                self._batches, batch_size=None, sampler=itertools.count(index), num_workers=self._count,
                prefetch_factor=_AHEAD, pin_memory=self._pinned, worker_init_fn=partial(_begin, parent),
                generator=torch.Generator(),
            )  # fmt: skip
            try:
                with _blocked_signals():
                    self._iterator = iter(loader)
            except Exception as error:
                raise _not_started(error) from error
        self._next = index
        # PyTorch would raise an error wherever the program is when one of them dies; the next batch raises it instead.
        torch.utils.data._utils.signal_handling._remove_worker_pids(id(self._iterator))  # type: ignore[attr-defined]
        self._iterator._worker_pids_set = False
        # Python would ask them to end with a signal that they ignore, and wait for them forever.
        self._kill = Finalize(self, _kill, (self._iterator, list(self._iterator._workers)), exitpriority=1)


def _kill(iterator: Any, processes: list[BaseProcess]) -> None:
    """Kill processes, and keep PyTorch from ending them in its own way.

    It would take a lock that it shares with them, and wait forever if one of them was killed while it held the lock.
    """
    iterator._shutdown = True
    if hasattr(iterator, "_pin_memory_thread_done_event"):
        iterator._pin_memory_thread_done_event.set()
    for process in processes:
        process.kill()
        process.join()


class _ErrorsAsText(Dataset[Any]):
    """Batches, or a text that says what is wrong with one: PyTorch would wrap an error in a traceback."""

    def __init__(self, batches: _Batches) -> None:
        self.batches = batches

    def __getitem__(self, index: int) -> Tensor | str:
        try:
            return self.batches[index]
        except UserError as error:
            return str(error)
        except MemoryError:
            return "a worker process has not enough memory to read its batches; give fewer workers or smaller batches."


def _begin(parent: int | None, number: int) -> None:
    """Leave signals to the main process, which ends the search with a checkpoint and then its workers."""
    with suppress(OSError, AttributeError):  # on Linux, end with the main process, whose lock a fork holds too
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent not in (None, os.getppid()):  # it was killed before; PyTorch would watch whoever is the parent now
        os._exit(1)
    for one in _LEFT_TO_MAIN:
        signal.signal(one, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _LEFT_TO_MAIN)


@contextmanager
def _blocked_signals() -> Iterator[None]:
    """Let signals wait while processes start; each unblocks them when it ignores them."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _LEFT_TO_MAIN)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _not_started(error: Exception) -> Exception:
    """Return the error for processes that cannot start."""
    if isinstance(error, OSError):
        return UserError(f"the worker processes cannot be started ({reason(error)}); give fewer workers.")
    if isinstance(error, pickle.PicklingError | AttributeError | TypeError):  # where processes are no forks
        return UserError(
            f"the data cannot be sent to worker processes ({reason(error)}); define its classes and functions at the "
            f"top of a module, or search without workers."
        )
    return error
