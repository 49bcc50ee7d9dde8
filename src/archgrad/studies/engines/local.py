"""Runs as processes of this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from archgrad.parts.fields import Range, check_value
from archgrad.studies.engines.base import Ended, Engine, Job
from archgrad.studies.engines.subprocesses import ask_to_stop, start, stop

__all__ = ["LocalEngine", "usable_cores"]

_PAUSE = 0.1


class LocalEngine(Engine):
    """One process for each run, as many at once as there are cores for their threads."""

    name = "local"

    def __init__(self, threads: int = 1, processes: int | None = None) -> None:
        if processes is not None:
            check_value("processes", processes, Annotated[int, Range(1, 1024)])
        self.capacity = processes or max(usable_cores() // threads, 1)
        self._running: dict[subprocess.Popen[bytes], Job] = {}

    def submit(self, jobs: Sequence[Job]) -> None:
        """Start a process for each job."""
        for job in jobs:
            self._running[start(job.command, job.log, job.threads)] = job

    def wait(self, seconds: float) -> list[Ended]:
        """Look for ended processes until there is one."""
        until = time.monotonic() + seconds
        while True:
            ended = [process for process in self._running if process.poll() is not None]
            if ended or time.monotonic() >= until:
                return [self._ended(process) for process in ended]
            time.sleep(_PAUSE)

    def _ended(self, process: subprocess.Popen[bytes]) -> Ended:
        job = self._running.pop(process)
        stop(process)
        code = process.returncode
        return Ended(job, code, f"it was killed by {signal.Signals(-code).name}" if code < 0 else "")

    def close(self) -> None:
        """Ask all processes to stop, and wait for them."""
        for process in self._running:
            ask_to_stop(process)
        for process in self._running:
            stop(process)
        self._running.clear()


def usable_cores() -> int:
    """Return how many cores this process may use: of the machine, of its affinity, and of its control group."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        return cores if quota == "max" else max(min(cores, int(quota) // int(period)), 1)
    except (OSError, ValueError):
        return cores
