"""How much memory a step takes: the growth of the largest resident size of a process that does nothing else."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from pathlib import Path

from archgrad.benchmarks.timing import one_thread
from archgrad.errors import UserError

__all__ = ["growth", "in_new_process"]


def in_new_process(measure: Callable[..., float], *arguments: object) -> float:
    """Return what ``measure`` returns in a fresh process."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(measure, arguments)


def growth(step: Callable[[], object]) -> float:
    """Return how much the largest resident size of this process grows in two steps on one thread, in megabytes."""
    with one_thread():
        before = _peak_so_far()
        step()
        step()
        return _peak_so_far() - before


def _peak_so_far() -> float:
    """Return the largest resident size of this process in megabytes; ``getrusage`` would count the parent's too."""
    status = Path("/proc/self/status")
    for line in status.read_text().splitlines() if status.exists() else ():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise UserError("this system does not tell the peak memory of a process; measure with --no-memory.")
