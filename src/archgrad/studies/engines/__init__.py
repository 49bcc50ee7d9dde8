"""Where the runs of a study are computed: local processes, a Ray cluster, or Slurm."""

from __future__ import annotations

from typing import Any

from archgrad.errors import UserError, look_up
from archgrad.studies.engines.base import BUSY, Ended, Engine, Job
from archgrad.studies.engines.local import LocalEngine

__all__ = ["BUSY", "ENGINES", "Ended", "Engine", "Job", "LocalEngine", "make_engine"]

ENGINES: dict[str, tuple[str, ...]] = {
    "local": ("processes",),
    "ray": ("address",),
    "slurm": ("partition", "minutes"),
}
"""The engines by name, with their options."""


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
    return LocalEngine(threads, **options)
