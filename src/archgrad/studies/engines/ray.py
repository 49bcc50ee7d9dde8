"""Runs as tasks of a Ray cluster whose machines share the folder of the study."""

from __future__ import annotations

import logging
import os
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, redirect_stdout
from pathlib import Path
from typing import Any

from archgrad.errors import UserError, shortened
from archgrad.studies.engines import BUSY, Ended, Engine, Job
from archgrad.studies.engines.local import start, stop

__all__ = ["RayEngine"]

_SECONDS_TO_CONNECT = 5.0
_SECONDS_TO_STOP = 90.0
_PAUSE = 0.1
_OBJECT_STORE_BYTES = 80 << 20
"""A cluster of our own has only exit codes to store; Ray asks for no less."""
_SHELL = ("sh", "-c", '"$@"; exit $?', "sh")
"""Ray kills the children of a task that ends. With the shell in between it kills the shell, and the run sees its
standard input close and writes its checkpoint."""


class RayEngine(Engine):
    """One task for each run, with as many CPUs as it has threads.

    Ray starts the task of a lost worker or machine again, which then continues from the checkpoint. ``address`` is that
    of a running cluster, ``HOST:PORT`` or ``auto``; without it, Ray runs on this machine alone.
    """

    name = "ray"

    def __init__(self, threads: int = 1, address: str | None = None) -> None:
        self._ray = _connected(address)
        self._task = self._ray.remote(num_cpus=threads, max_retries=-1, retry_exceptions=False)(_compute)
        self._running: dict[Any, Job] = {}
        self._output = ExitStack()

    def __enter__(self) -> RayEngine:
        self._output.enter_context(redirect_stdout(sys.stderr))  # Ray prints there that it starts a task again
        return self

    def submit(self, jobs: Sequence[Job]) -> None:
        """Give a task to Ray for each job."""
        known = {name: value for name, value in os.environ.items() if _is_ours(name)}
        for job in jobs:
            task = self._task.remote(job.command[1:], str(job.log), job.threads, known, str(Path.cwd()))
            self._running[task] = job

    def wait(self, seconds: float) -> list[Ended]:
        """Wait for the first tasks that have ended."""
        if not self._running:
            return []
        ended, _ = self._ray.wait(list(self._running), num_returns=1, timeout=seconds)
        return [self._ended(one) for one in ended]

    def _ended(self, task: Any) -> Ended:
        job = self._running.pop(task)
        try:
            return Ended(job, self._ray.get(task))
        except self._ray.exceptions.RayError as error:
            lines = str(error).strip().splitlines()
            return Ended(job, 1, f"Ray: {lines[-1][:300] if lines else type(error).__name__}")

    def close(self) -> None:
        """Cancel all tasks, which lets their processes write a checkpoint, and leave the cluster."""
        for task in self._running:
            self._ray.cancel(task, force=False)
        if self._running:
            self._ray.wait(list(self._running), num_returns=len(self._running), timeout=_SECONDS_TO_STOP)
        self._running.clear()
        self._ray.shutdown()
        self._output.close()


def _connected(address: str | None) -> Any:
    """Return the module ray, connected to a cluster."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        if address is not None:
            _check_answer(address)
        import ray

        from archgrad.loop.estimate import usable_cores

        own: dict[str, Any] = {
            "num_cpus": usable_cores(), "object_store_memory": _OBJECT_STORE_BYTES, "include_dashboard": False,
        }  # fmt: skip
        where = {"address": address} if address is not None else {"address": "local", **own}
        ray.init(**where, log_to_driver=False, logging_level=logging.ERROR)
    except ImportError:
        raise UserError('the engine "ray" needs Ray: pip install "archgrad[ray]".') from None
    except (OSError, RuntimeError, ValueError) as error:
        what = "Ray does not start here" if address is None else f"no Ray cluster answers at {shortened(address)}"
        raise UserError(
            f"{what} ({str(error).strip().splitlines()[0][:200]}); start a cluster with `ray start --head` and give "
            f"its address, or use another --engine."
        ) from error
    return ray


def _check_answer(address: str) -> None:
    """Raise an error unless somebody listens at HOST:PORT; Ray itself would wait for minutes."""
    if address == "auto":
        return
    host, colon, port = address.rpartition(":")
    if not colon or not host or "/" in host or not port.isdecimal():
        raise ValueError("it must be HOST:PORT of a cluster that this machine belongs to, or auto")
    socket.create_connection((host, int(port)), _SECONDS_TO_CONNECT).close()


def _is_ours(variable: str) -> bool:
    """Tell whether the runs need a variable of the machine on which the study was started."""
    return variable.startswith("ARCHGRAD_") or variable == "PYTHONPATH"


def _compute(arguments: Sequence[str], log: str, threads: int, environment: Mapping[str, str], folder: str) -> int:
    """Compute a run with the Python of a machine of the cluster; return its exit code."""
    there = Path(folder) if Path(folder).is_dir() else None
    process = start([*_SHELL, sys.executable, *arguments], Path(log), threads, environment, there)
    try:
        while process.poll() is None:  # a task that is cancelled does not wake up from a longer wait
            time.sleep(_PAUSE)
        return process.returncode
    except KeyboardInterrupt:  # the task is cancelled
        return BUSY
    finally:
        stop(process)
