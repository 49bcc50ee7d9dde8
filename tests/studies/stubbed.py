"""A coordinator with stub workers, in a module that a forked process imports quickly: it needs no pytest."""

from __future__ import annotations

import sys
from pathlib import Path

from archgrad.studies.coordinator import run_missing
from archgrad.studies.engines import Job, LocalEngine
from archgrad.studies.folder import StudyFolder
from archgrad.studies.plan import Benchmark, StudyPlan, Variant

__all__ = ["coordinate", "plan_of", "stub_command"]

_STUB = Path(__file__).with_name("stub_worker.py")
BENCHMARK = Benchmark("b", "nasbench201", "digits")


def plan_of(*names: str, seeds: int = 1) -> StudyPlan:
    return StudyPlan(tuple(Variant(name, "darts") for name in names), (BENCHMARK,), tuple(range(seeds)))


def stub_command(job: Job) -> list[str]:
    return [sys.executable, "-S", str(_STUB), str(job.study), job.name]


def coordinate(folder: Path, names: tuple[str, ...], seeds: int) -> None:
    """Work on a study until its end."""
    Job.command = property(stub_command)  # type: ignore[method-assign,assignment]
    study = StudyFolder(folder)
    with study.locked():
        run_missing(study, plan_of(*names, seeds=seeds), LocalEngine(processes=2))
