"""The wall time of an iteration of first-order DARTS in one process with one or two threads, and in two processes.

All compute the same joint batch. An iteration is a step of α and one of the weights; the fastest repetition counts.
``cpu_ms`` is the time of the processor that one process needs, without waiting for others; ``collectives`` and ``kB``
are those of an iteration. Only an idle machine with two cores or more tells anything about two processes.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from archgrad.distributed.collectives import counted
from archgrad.distributed.processes import joined
from archgrad.recipes import named
from benchmarks.common import Case, Report, options
from benchmarks.search_steps import SearchSteps

CASES = [Case("nasbench201", 16, 1, 32, 64), Case("darts", 16, 8, 32, 64)]
WAYS = ((1, 1), (1, 2), (2, 1))
"""Numbers of processes, and of threads in each."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure all ways of every case."""
    chosen, report = options(__doc__, CASES, arguments), Report()
    for case in chosen.cases:
        base = 0.0
        for processes, threads in WAYS:
            found = measured(case, processes, threads, chosen.repeats)
            base = base or found["ms"]
            speedup = base / found["ms"]
            report.add(space=case.space, processes=processes, threads=threads, **found, speedup=speedup)
    report.store(chosen.json)


def measured(case: Case, processes: int, threads: int, repeats: int) -> dict[str, Any]:
    """Return the milliseconds of an iteration in fresh processes, and its collectives."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder, context.Pool(processes) as pool:
        work = [(case, rank, processes, threads, repeats, folder) for rank in range(processes)]
        found: dict[str, Any] = pool.starmap(measure, work, chunksize=1)[0]
    return found


def measure(case: Case, rank: int, size: int, threads: int, repeats: int, folder: str) -> dict[str, Any]:
    """Take the iterations of one of several processes."""
    os.environ["OMP_NUM_THREADS"] = str(threads)
    torch.set_num_threads(threads)
    if size > 1:
        store = f"file://{Path(folder) / 'store'}"
        dist.init_process_group("gloo", init_method=store, rank=rank, world_size=size)
    with joined("cpu"):
        search, taken, busy = SearchSteps(case, named("darts")), list[float](), list[float]()
        for _ in range(repeats + 1):
            calls, sent, began, before = counted.calls, counted.bytes, time.perf_counter(), time.process_time()
            for step in search.steps():
                step()
            taken.append(time.perf_counter() - began)
            busy.append(time.process_time() - before)
    if size > 1:
        dist.destroy_process_group()
    times = {"ms": 1e3 * min(taken[1:] or taken), "cpu_ms": 1e3 * min(busy[1:] or busy)}
    return {**times, "collectives": counted.calls - calls, "kB": (counted.bytes - sent) // 1024}


if __name__ == "__main__":
    main()
