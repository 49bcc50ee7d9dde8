"""Studies with stub workers, and their coordinators as processes, which import this quickly: it needs no pytest."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from forked import Forked

from archgrad.studies.coordinator import run_missing
from archgrad.studies.engines import Job, make_engine
from archgrad.studies.folder import StudyFolder
from archgrad.studies.plan import Benchmark, StudyPlan, Variant

STUB = Path(__file__).with_name("stub_worker.py")
BENCHMARK = Benchmark("b", "nasbench201", "digits")
ALL_EPOCHS = ["1", "2", "3"]


def plan_of(*names: str, seeds: int = 1) -> StudyPlan:
    return StudyPlan(tuple(Variant(name, "darts") for name in names), (BENCHMARK,), tuple(range(seeds)))


def stub_command(job: Job) -> list[str]:
    return [sys.executable, "-S", str(STUB), str(job.study), job.name]


def coordinate(study: Path, plan: StudyPlan, engine: str, options: dict[str, Any]) -> None:
    """Compute a study to its end, as `archgrad compare` does."""
    Job.command = property(stub_command)  # type: ignore[method-assign,assignment]
    folder = StudyFolder(study)
    with folder.locked():
        assert run_missing(folder, plan, make_engine(engine, 1, options)) == {}


def coordinator(study: Path, plan: StudyPlan, engine: str, **options: Any) -> Forked:
    """Start a process that computes a study."""
    StudyFolder(study).write_plan(plan)
    return Forked(partial(coordinate, study, plan, engine, options), study.parent, {}, at_once=True)


def lines(study: Path, name: str) -> list[str]:
    """Return the lines of all files of that name in the runs of a study."""
    return [line for file in sorted(study.glob(f"b/*/{name}")) for line in file.read_text().splitlines()]


def wait_for(condition: Callable[[], object], seconds: float = 120.0) -> None:
    """Wait until something is true."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "nothing happened"
        time.sleep(0.05)
