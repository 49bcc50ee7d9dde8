"""Processes that read batches ahead of time."""

from __future__ import annotations

import ctypes
import itertools
import multiprocessing
import pickle
import signal
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.process import BaseProcess
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from archgrad.errors import UserError

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
        self._batches, self._count, self._pinned = batches, count, pinned
        self._first = _Consecutive()
        self._loader: DataLoader[Any] | None = None
        self._iterator: Iterator[Any] = iter(())
        self._next = 0
        self._processes: list[BaseProcess] = []

    def __getitem__(self, index: int) -> Tensor:
        if self._loader is None or self._next != index:
            self._start(index)
        try:
            found, self._next = next(self._iterator), index + 1
        except (OSError, EOFError, RuntimeError) as error:  # a process died, perhaps while it sent a batch
            if isinstance(error, RuntimeError) and not str(error).startswith("DataLoader worker"):
                raise
            raise _lost(error) from error
        if isinstance(found, str):
            raise UserError(found)
        batch: Tensor = found
        return batch

    def close(self) -> None:
        """End the processes, whatever they are doing: they only read."""
        if self._loader is None:
            return
        _abandon(self._iterator)
        self._iterator, self._loader = iter(()), None
        for process in self._processes:
            process.kill()
            process.join()
        self._processes = []
        _quiet_deaths.end()

    def _start(self, index: int) -> None:
        """Let the processes read from batch ``index`` on."""
        self._next, self._first.index = index, index
        before = set(multiprocessing.active_children())
        with warnings.catch_warnings():  # more processes than cores may be right where they wait for a disk
            warnings.simplefilter("ignore")
            first = self._loader is None
            self._loader = self._new_loader() if self._loader is None else self._loader
            try:
                with _blocked_signals():
                    self._iterator = iter(self._loader)
            except Exception as error:
                self._loader = None
                raise _not_started(error) from error
        if first:
            _quiet_deaths.begin()
        self._processes += [one for one in multiprocessing.active_children() if one not in before]

    def _new_loader(self) -> DataLoader[Any]:
        return DataLoader(
            _Told(self._batches), batch_size=None, sampler=self._first, num_workers=self._count,
            prefetch_factor=_AHEAD, persistent_workers=True, pin_memory=self._pinned,
            worker_init_fn=_begin, generator=torch.Generator(),
        )  # fmt: skip


class _Consecutive(Sampler[int]):
    """All numbers from ``index`` on."""

    index = 0

    def __init__(self) -> None:
        pass

    def __iter__(self) -> Iterator[int]:
        return itertools.count(self.index)


class _Told(Dataset[Any]):
    """Batches, or the sentence of what is wrong with one: PyTorch would wrap an error in a traceback."""

    def __init__(self, batches: _Batches) -> None:
        self.batches = batches

    def __getitem__(self, index: int) -> Tensor | str:
        try:
            return self.batches[index]
        except UserError as error:
            return str(error)
        except MemoryError:
            return "a worker process has not enough memory to read its batches; give fewer workers or smaller batches."


def _begin(number: int) -> None:
    """Leave signals to the main process, which ends the search with a checkpoint and then its workers."""
    with suppress(OSError, AttributeError):  # on Linux, end with the main process, whose lock a fork holds too
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    for one in _LEFT_TO_MAIN:
        signal.signal(one, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _LEFT_TO_MAIN)


def _abandon(iterator: Any) -> None:
    """Keep an iterator of PyTorch from ending its processes in its own way when it is deleted.

    It would take a lock that it shares with them, and wait forever if one of them was killed while it held the lock.
    """
    if not hasattr(iterator, "_shutdown"):
        return
    iterator._shutdown = True
    if hasattr(iterator, "_pin_memory_thread_done_event"):
        iterator._pin_memory_thread_done_event.set()
    for queue in (*iterator._index_queues, iterator._worker_result_queue):
        queue.cancel_join_thread()
        queue.close()
    if iterator._worker_pids_set:
        signal_handling: Any = torch.utils.data._utils.signal_handling
        signal_handling._remove_worker_pids(id(iterator))
        iterator._worker_pids_set = False


@contextmanager
def _blocked_signals() -> Iterator[None]:
    """Let signals wait while processes start, until they have their handlers."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _LEFT_TO_MAIN)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _QuietDeaths:
    """Keeps PyTorch from raising an error wherever the program is when a worker dies.

    Its handler of the signal SIGCHLD does so, even between two searches. Without it, the error is raised where the next
    batch is asked for.
    """

    def __init__(self) -> None:
        self._users = 0
        self._handler: Any = signal.SIG_DFL

    def begin(self) -> None:
        """Put PyTorch's handler aside, after workers have started."""
        if self._users == 0 and self._possible():
            self._handler = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._users += 1

    def end(self) -> None:
        """Put the handler back, after the last workers have ended."""
        self._users -= 1
        if self._users == 0 and self._possible():
            signal.signal(signal.SIGCHLD, self._handler)

    def _possible(self) -> bool:
        return hasattr(signal, "SIGCHLD") and threading.current_thread() is threading.main_thread()


_quiet_deaths = _QuietDeaths()


def _not_started(error: Exception) -> Exception:
    """Return the sentence for processes that cannot start."""
    reason = str(error)[:100]
    if isinstance(error, OSError):
        return UserError(f"the worker processes cannot be started ({reason}); give fewer workers.")
    if isinstance(error, pickle.PicklingError | AttributeError | TypeError):  # where processes are no forks
        return UserError(
            f"the data cannot be sent to worker processes ({reason}); define its classes and functions at the top of a "
            f"module, or search without workers."
        )
    return error


def _lost(error: Exception) -> UserError:
    reason = (str(error) or type(error).__name__).splitlines()[0].rstrip(". ")
    return UserError(
        f"a process that reads the data was lost ({reason}), often for want of memory or of room in /dev/shm; give "
        f"fewer workers."
    )
