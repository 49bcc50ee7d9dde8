"""The process of a run: how it is started, tied to its parent, and stopped with a checkpoint."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from archgrad.studies.engines.base import STOP_WITH_STDIN

__all__ = ["start", "stop"]

_LONGEST_END = 60.0
"""A process that has not ended so long after its signal is killed; its last checkpoint stays."""


def start(command: Sequence[str], log: Path, threads: int) -> subprocess.Popen[bytes]:
    """Start the process of a run; it stops by itself, with a checkpoint, when this process ends in any way."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as file:
        return subprocess.Popen(  # noqa: S603 - our own command
            [*command, STOP_WITH_STDIN],
            stdin=subprocess.PIPE,
            stdout=file,
            stderr=file,
            env={**os.environ, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)},
            start_new_session=True,
        )


def stop(process: subprocess.Popen[bytes]) -> None:
    """Let a process write its checkpoint and end; it has got its signal already, or gets it now."""
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(_LONGEST_END)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdin is not None:
        process.stdin.close()
