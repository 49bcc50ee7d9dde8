"""Runs as tasks of a Ray cluster whose machines share the folder of the study."""

from __future__ import annotations

import logging
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from archgrad.errors import UserError, shortened
from archgrad.studies.engines.base import BUSY, Ended, Engine, Job
from archgrad.studies.engines.local import usable_cores
from archgrad.studies.engines.subprocesses import start, stop

__all__ = ["RayEngine"]

_SECONDS_TO_CONNECT = 10.0
_MODULE = "archgrad.studies.worker"


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

    def submit(self, jobs: Sequence[Job]) -> None:
        """Give a task to Ray for each job."""
        for job in jobs:
            self._running[self._task.remote(str(job.study), job.name, str(job.log), job.threads)] = job

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
            self._ray.wait(list(self._running), num_returns=len(self._running), timeout=60)
        self._running.clear()
        self._ray.shutdown()


def _connected(address: str | None) -> Any:
    """Return the module ray, connected to a cluster."""
    try:
        import ray
    except ImportError:
        raise UserError('the engine "ray" needs Ray: pip install "archgrad[ray]".') from None
    if address is not None and address != "auto":
        _check_address(address)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    own: dict[str, Any] = {"num_cpus": usable_cores(), "include_dashboard": False} if address is None else {}
    try:
        where = "local" if address is None else address
        ray.init(address=where, log_to_driver=False, logging_level=logging.ERROR, **own)
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
        raise UserError(
            f"no Ray cluster answers at {shortened(address)} ({str(error).splitlines()[0][:200]}); start one with "
            f"`ray start --head`, or leave --address out."
        ) from error
    return ray


def _check_address(address: str) -> None:
    """Raise a UserError unless something listens at HOST:PORT: Ray itself would wait for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    try:
        if not colon or not host:
            raise ValueError("it must be HOST:PORT, or auto")
        socket.create_connection((host, int(port)), _SECONDS_TO_CONNECT).close()
    except (OSError, ValueError) as error:
        raise UserError(
            f"no Ray cluster answers at {shortened(address)} ({error}); start one with `ray start --head`, or leave "
            f"--address out."
        ) from error


def _compute(study: str, name: str, log: str, threads: int) -> int:
    """Compute a run on a machine of the cluster; return its exit code."""
    process = start([sys.executable, "-m", _MODULE, study, name], Path(log), threads)
    try:
        return process.wait()
    except BaseException:  # the task is cancelled
        stop(process)
        return BUSY
    finally:
        stop(process)
