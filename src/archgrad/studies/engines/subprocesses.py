"""The process of a run: how it is started, tied to its parent, and stopped with a checkpoint."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from archgrad.studies.engines.base import STOP_WITH_STDIN

__all__ = ["ask_to_stop", "start", "stop"]

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
