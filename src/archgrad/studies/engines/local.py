"""Runs as processes of this machine: how one is started, tied to its parent, and stopped with a checkpoint."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from archgrad.parts.fields import Range, check_value
from archgrad.studies.engines import STOP_WITH_STDIN, Ended, Engine, Job

__all__ = ["LocalEngine", "ask_to_stop", "start", "stop"]

_PAUSE = 0.1
_LONGEST_END = 60.0
"""A process that has not ended so long after it was asked to is killed; its last checkpoint stays."""
_INHERITED: Mapping[str, str] = {}


def start(
    command: Sequence[str],
    log: Path,
    threads: int,
    environment: Mapping[str, str] = _INHERITED,
    folder: Path | None = None,
) -> subprocess.Popen[bytes]:
    """Start the process of a run; it stops by itself, with a checkpoint, when this process ends in any way.

    It computes in the working directory ``folder``, and has the variables of this process and of ``environment``.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as file:
        return subprocess.Popen(  # noqa: S603 - our own command
            [*command, STOP_WITH_STDIN],
            stdin=subprocess.PIPE,
            stdout=file,
            stderr=file,
            env={**os.environ, **environment, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)},
            cwd=folder,
            start_new_session=True,
        )


def ask_to_stop(process: subprocess.Popen[bytes]) -> None:
    """Let a process write its checkpoint and end: close its standard input.

    A signal would say the same, but a second one, from a cluster that sends its own, would end it at once.
    """
    if process.stdin is not None:
        process.stdin.close()


def stop(process: subprocess.Popen[bytes]) -> None:
    """Let a process write its checkpoint, and wait for its end; kill it and its children if that takes too long."""
    ask_to_stop(process)
    try:
        process.wait(_LONGEST_END)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


class LocalEngine(Engine):
    """One process for each run, as many at once as there are cores for their threads."""

    name = "local"

    def __init__(self, threads: int = 1, processes: int | None = None) -> None:
        if processes is not None:
            check_value("processes", processes, Annotated[int, Range(1, 1024)])
        from archgrad.loop.threads import usable_cores  # it needs PyTorch, which a job of Slurm does without

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
