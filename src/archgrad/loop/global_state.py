"""What a search changes in its process and restores: PyTorch's random state and kernels, threads, and signals."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import FrameType

import torch

from archgrad.distributed.processes import largest
from archgrad.errors import UserError
from archgrad.system.random_streams import SavedRandomState

__all__ = [
    "Interrupt",
    "catch_signals",
    "own_global_state",
    "own_threads",
    "seed_globally",
    "set_threads",
    "take_turns",
]

_log = logging.getLogger("archgrad")
_owner = threading.RLock()  # a callback may run a search inside a search
_MOST_THREADS = 256
"""So many threads can always be asked for: a run keeps its number of threads on a smaller machine."""


@contextmanager
def take_turns() -> Iterator[None]:
    """Wait until no other thread of this process searches, and keep others waiting inside the block.

    Weights are initialized from the global generators, and a user's operations may draw from them. So each search gives
    the same bits as alone.
    """
    if not _owner.acquire(blocking=False):
        _log.warning("another search is running in this process, and both need its random state; waiting for its end.")
        _owner.acquire()
    try:
        yield
    finally:
        _owner.release()


@contextmanager
def own_global_state(device: torch.device, deterministic: bool = False) -> Iterator[None]:
    """Enable gradients whatever the caller has set, and restore the caller's random state afterwards.

    ``deterministic`` lets PyTorch use deterministic kernels only.
    """
    kernels = _deterministic_kernels(device) if deterministic else nullcontext()
    with take_turns(), SavedRandomState(device).replay(), torch.inference_mode(False), torch.enable_grad(), kernels:
        yield


def set_threads(count: int) -> None:
    """Compute with so many threads from now on, because the last bits of a sum depend on it."""
    most = max(_MOST_THREADS, 4 * (os.cpu_count() or 1))
    if count > most:
        raise UserError(f"threads is {count}; there are {os.cpu_count()} CPUs, so give at most {most}.")
    torch.set_num_threads(count)


@contextmanager
def own_threads(count: int | None) -> Iterator[None]:
    """Compute with so many threads inside the block; None changes nothing. The block may choose others."""
    before = torch.get_num_threads()
    if count is not None:
        set_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _deterministic_kernels(device: torch.device) -> Iterator[None]:
    """Set PyTorch's switches for deterministic kernels; restore them afterwards."""
    cudnn, variable = torch.backends.cudnn, "CUBLAS_WORKSPACE_CONFIG"
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    flags, unset = (cudnn.deterministic, cudnn.benchmark), device.type == "cuda" and variable not in os.environ
    torch.use_deterministic_algorithms(True)
    cudnn.deterministic, cudnn.benchmark = True, False
    if unset:  # cuBLAS reads it when it is first used
        os.environ[variable] = ":4096:8"
    try:
        yield
    except RuntimeError as error:
        if "deterministic" not in str(error):
            raise
        reason = str(error).partition(". ")[0][:200]
        raise UserError(f"the search cannot be deterministic on {device}: {reason}; search without.") from error
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
        cudnn.deterministic, cudnn.benchmark = flags
        if unset:
            os.environ.pop(variable, None)


def seed_globally(seed: int, device: torch.device) -> None:
    """Seed the global generators of the CPU and this device, from which a user's dropout may draw."""
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        with torch.cuda.device(device):
            torch.cuda.manual_seed(seed)
    elif device.type == "mps":
        torch.mps.manual_seed(seed)


class Interrupt:
    """The received signal, 0 if none."""

    signal: int = 0

    def agreed(self) -> int:
        """Return a signal that any process has received; all processes must ask at the same point."""
        self.signal = largest(self.signal)
        return self.signal


@contextmanager
def catch_signals(enabled: bool, interrupt: Interrupt | None = None) -> Iterator[Interrupt]:
    """Record SIGINT and SIGTERM instead of ending the process; a second signal ends it at once.

    Only the main thread can catch signals; elsewhere, or if not enabled, nothing changes. An ignored signal, such as
    SIGINT in a background job, stays ignored.
    """
    interrupt = interrupt or Interrupt()
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
