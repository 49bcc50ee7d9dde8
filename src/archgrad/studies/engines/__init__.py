"""Where the runs of a study are computed: local processes, a Ray cluster, or Slurm."""

from __future__ import annotations

from archgrad.studies.engines.base import BUSY, Ended, Engine, Job
from archgrad.studies.engines.local import LocalEngine, usable_cores

__all__ = ["BUSY", "ENGINES", "Ended", "Engine", "Job", "LocalEngine", "usable_cores"]

ENGINES = ("local",)
"""The names of the engines."""
