"""Processes that read batches ahead of time."""

from __future__ import annotations

import ctypes
import itertools
import multiprocessing
import os
import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Event
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from archgrad.errors import UserError

__all__ = ["WorkerProcesses", "told_of_lost_workers"]

_AHEAD = 2
"""The batches that each process reads ahead."""
_KEPT = 8
"""The last batches are kept: an unrolled gradient asks again for those of the steps before."""
_SECONDS_TO_END = 2.0
_PR_SET_PDEATHSIG = 1


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
        self._next, self._recent = 0, dict[int, Tensor]()
        self._processes: list[BaseProcess] = []
        self._closing: Event | None = None

    def __getitem__(self, index: int) -> Tensor:
        if index not in self._recent:
            if self._loader is None or not self._next <= index <= self._next + _AHEAD * self._count:
                self._start(index)
            while self._next <= index:
                try:
                    found, self._next = next(self._iterator), self._next + 1
                except (OSError, EOFError) as error:  # a process died while it handed over a batch
                    raise _lost(error) from error
                self._keep(self._next - 1, found)
        return self._recent[index]

    def close(self) -> None:
        """End the processes, whatever they are doing."""
        if self._loader is None:
            return
        assert self._closing is not None  # noqa: S101 - for the type checker
        self._closing.set()
        for process in self._processes:
            process.terminate()
        self._iterator, self._loader = iter(()), None
        for process in self._processes:
            process.join(_SECONDS_TO_END)
            if process.is_alive():
                process.kill()
                process.join()
        self._processes, self._recent = [], {}

    def _keep(self, index: int, found: Tensor | str) -> None:
        if isinstance(found, str):
            raise UserError(found)
        self._recent.pop(index, None)
        self._recent[index] = found
        if len(self._recent) > _KEPT:
            del self._recent[next(iter(self._recent))]

    def _start(self, index: int) -> None:
        """Let the processes read from batch ``index`` on."""
        self._next, self._first.index = index, index
        before = set(multiprocessing.active_children())
        with warnings.catch_warnings():  # more processes than cores may be right where they wait for a disk
            warnings.simplefilter("ignore")
            self._loader = self._new_loader() if self._loader is None else self._loader
            self._iterator = iter(self._loader)
        self._processes += [one for one in multiprocessing.active_children() if one not in before]

    def _new_loader(self) -> DataLoader[Any]:
        self._closing = multiprocessing.Event()
        return DataLoader(
            _Told(self._batches), batch_size=None, sampler=self._first, num_workers=self._count,
            prefetch_factor=_AHEAD, persistent_workers=True, pin_memory=self._pinned,
            worker_init_fn=partial(_begin, self._closing), generator=torch.Generator(),
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


def _begin(closing: Event, number: int) -> None:
    """Leave signals to the main process, which ends the search with a checkpoint and then its workers."""

    def end(*received: object) -> None:
        if closing.is_set():
            os._exit(0)

    with suppress(OSError, AttributeError):  # on Linux, end with the main process, whose lock a fork holds too
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, end)


@contextmanager
def told_of_lost_workers() -> Iterator[None]:
    """Turn PyTorch's error about a worker process that was killed into a sentence."""
    try:
        yield
    except RuntimeError as error:
        if not str(error).startswith("DataLoader worker"):
            raise
        raise _lost(error) from error


def _lost(error: Exception) -> UserError:
    reason = (str(error) or type(error).__name__).splitlines()[0].rstrip(". ")
    return UserError(
        f"a process that reads the data was lost ({reason}), often for want of memory or of room in /dev/shm; give "
        f"fewer workers."
    )
