"""How long steps take: process CPU time on one thread, in turns, the fastest of the repeats."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch

__all__ = ["Timed", "in_turns", "one_thread"]

T = TypeVar("T")


@dataclass(frozen=True)
class Timed(Generic[T]):
    """What a step returned the first time, and the milliseconds of its fastest run."""

    result: T
    milliseconds: float


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute on one thread, and afterwards on as many as before."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def in_turns(steps: Sequence[Callable[[], T]], repeats: int, patience: float = math.inf) -> list[Timed[T]]:
    """Run the steps in turns, once to warm up and then ``repeats`` times.

    After ``patience`` seconds no turn begins but the first after the warm-up.
    """
    results = []
    times: list[list[float]] = [[] for _ in steps]
    began = time.process_time()
    for turn in range(repeats + 1):
        if turn > 1 and time.process_time() - began > patience:
            break
        for step, taken in zip(steps, times, strict=True):
            before = time.process_time()
            result = step()
            taken.append(time.process_time() - before)
            if not turn:
                results.append(result)
    return [Timed(result, 1e3 * min(taken[1:])) for result, taken in zip(results, times, strict=True)]
