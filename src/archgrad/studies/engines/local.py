"""Runs as processes of this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence

from archgrad.studies.engines.base import STOP_WITH_STDIN, Ended, Engine, Job

__all__ = ["LocalEngine", "process_environment", "usable_cores"]

_PAUSE = 0.1
_LONGEST_END = 60.0
"""A process that has not ended so long after its signal is killed; its last checkpoint stays."""


class LocalEngine(Engine):
    """One process for each run, as many at once as there are cores for their threads.

    A process ends with a checkpoint when its study ends: it reads from a pipe that closes then, even by ``kill -9``.
    """

    name = "local"

    def __init__(self, threads: int = 1, processes: int | None = None) -> None:
        self.capacity = processes or max(usable_cores() // threads, 1)
        self._running: dict[subprocess.Popen[bytes], Job] = {}

    def submit(self, jobs: Sequence[Job]) -> None:
        """Start a process for each job."""
        for job in jobs:
            job.log.parent.mkdir(parents=True, exist_ok=True)
            with job.log.open("ab") as log:
                process = subprocess.Popen(  # noqa: S603 - our own command
                    [*job.command, STOP_WITH_STDIN],
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=log,
                    env=process_environment(job.threads),
                    start_new_session=True,
                )
            self._running[process] = job

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
        if process.stdin is not None:
            process.stdin.close()
        code = process.returncode
        return Ended(job, code, f"it was killed by {signal.Signals(-code).name}" if code < 0 else "")

    def close(self) -> None:
        """Ask all processes to stop, and wait for them."""
        for process in self._running:
            process.terminate()
        for process in list(self._running):
            try:
                process.wait(_LONGEST_END)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            self._ended(process)


def process_environment(threads: int) -> Mapping[str, str]:
    """Return the environment of a process that computes with so many threads."""
    return {**os.environ, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}


def usable_cores() -> int:
    """Return how many cores this process may use: of the machine, of its affinity, and of its control group."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        with open("/sys/fs/cgroup/cpu.max", encoding="ascii") as file:  # noqa: PTH123
            quota, period = file.read().split()
        return cores if quota == "max" else max(min(cores, int(quota) // int(period)), 1)
    except (OSError, ValueError):
        return cores
