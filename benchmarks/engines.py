"""What an engine adds to a run: studies of trivial runs, computed by local processes, Ray and Slurm.

``start_s`` is the time to start or reach the engine, ``run_s`` that of a run by itself, ``study_s`` that of all runs.
``overhead_s`` is how long a run holds one of the cores beyond its own time: ``cores * study_s / runs - run_s``.
``python tests/slurm/one_node.py python -m benchmarks.engines --engines slurm`` measures a Slurm of one node.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from archgrad.loop.threads import usable_cores
from archgrad.studies.coordinator import run_missing
from archgrad.studies.engines import Job, make_engine
from archgrad.studies.folder import StudyFolder
from benchmarks.common import Report
from tests.studies.stubbed import plan_of, stub_command


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the engines that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engines", default="local,ray", help="names of engines [local,ray]")
    parser.add_argument("--runs", type=int, default=50, help="runs of a study [50]")
    parser.add_argument("--tiny", action="store_true", help="two runs, to see that it works")
    parser.add_argument("--json", type=Path, metavar="FILE", help="store the rows")
    given = parser.parse_args(arguments)
    Job.command = property(stub_command)  # type: ignore[method-assign,assignment]
    report = Report()
    for name in given.engines.split(","):
        report.add(engine=name, **measured(name, 2 if given.tiny else given.runs))
    report.store(given.json)


def measured(name: str, runs: int) -> dict[str, float]:
    """Return the seconds of a study and of its runs."""
    with tempfile.TemporaryDirectory() as place:
        alone = own_seconds(Path(place) / "alone", runs)
        began = time.monotonic()
        engine = make_engine(name, 1, {})
        started = time.monotonic()
        folder = Path(place) / "study"
        folder.mkdir()
        failures = run_missing(StudyFolder(folder), plan_of("x", seeds=runs), engine)
        taken = time.monotonic() - started
        if failures:
            raise SystemExit(f"runs failed: {failures}")
    overhead = usable_cores() * taken / runs - alone
    return {"runs": runs, "start_s": started - began, "run_s": alone, "study_s": taken, "overhead_s": overhead}


def own_seconds(study: Path, runs: int) -> float:
    """Return the mean seconds of a run as a process, without any engine."""
    jobs = [Job(run.name, study) for run in plan_of("x", seeds=runs).runs()]
    began = time.monotonic()
    for job in jobs:
        subprocess.run(job.command, check=True)
    return (time.monotonic() - began) / runs


if __name__ == "__main__":
    main()
