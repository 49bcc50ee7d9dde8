"""Where the runs of a study are computed: local processes, a Ray cluster, or Slurm."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from archgrad.errors import UserError, look_up

__all__ = ["BUSY", "ENGINES", "STOP_WITH_STDIN", "Ended", "Engine", "Job", "make_engine"]

ENGINES: dict[str, tuple[str, ...]] = {
    "local": ("processes",),
    "ray": ("address",),
    "slurm": ("partition", "minutes"),
}
"""The engines by name, with their options."""
BUSY = 75
"""The exit code of a run whose directory another process still holds: try again later."""
STOP_WITH_STDIN = "--stop-with-stdin"
"""The option that ties a run to the process that started it: it stops when its standard input closes."""


@dataclass(frozen=True)
class Job:
    """One run of a study, as an engine sees it: its ``name``, and the study's folder, which all machines share.

    The same command begins a run and continues it, so an engine may start a lost job again at any time.
    """

    name: str
    study: Path
    threads: int = 1

    @property
    def command(self) -> list[str]:
        """The command that computes the run; its exit code is 0 if the run is finished."""
        return [sys.executable, "-m", "archgrad.studies.worker", str(self.study), self.name]

    @property
    def log(self) -> Path:
        """The file for what the run prints."""
        return self.study / "logs" / f"{self.name}.log"


@dataclass(frozen=True)
class Ended:
    """A job that has ended with an exit ``code``; ``reason`` is what the engine knows of a failure."""

    job: Job
    code: int
    reason: str = ""


class Engine(ABC):
    """Computes jobs, and returns those that have ended. Leaving its context stops the others, with checkpoints."""

    name: ClassVar[str]
    capacity: int | None = None
    """The most jobs that are worth being submitted at once; None if the engine has a queue of its own."""

    @abstractmethod
    def submit(self, jobs: Sequence[Job]) -> None:
        """Begin the jobs, now or when there is room for them."""

    @abstractmethod
    def wait(self, seconds: float) -> list[Ended]:
        """Return the jobs that have ended since the last call; wait for the first at most so long."""

    @abstractmethod
    def close(self) -> None:
        """Stop all jobs so that they leave a checkpoint, and wait for their ends."""

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def make_engine(name: str, threads: int, options: dict[str, Any]) -> Engine:
    """Return an engine for runs of so many threads each."""
    known = look_up("engine", name, ENGINES)
    for option in options:
        if option not in known:
            raise UserError(f"the engine {name!r} has no option {option!r}; it has: {', '.join(known)}.")
    if name == "ray":
        from archgrad.studies.engines.ray import RayEngine

        return RayEngine(threads, **options)
    if name == "slurm":
        from archgrad.studies.engines.slurm import SlurmEngine

        return SlurmEngine(threads, **options)
    from archgrad.studies.engines.local import LocalEngine

    return LocalEngine(threads, **options)
