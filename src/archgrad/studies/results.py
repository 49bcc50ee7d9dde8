"""The results of a study's runs, as their run directories tell them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from archgrad.diagnostics.records import number_in, share_of
from archgrad.errors import UserError, unknown
from archgrad.loop.folder import read_records
from archgrad.spaces import SKIP
from archgrad.studies.folder import StudyFolder
from archgrad.studies.plan import Benchmark, PlannedRun, StudyPlan
from archgrad.tasks import MetricInfo

__all__ = ["BenchmarkResults", "RunResult", "read_results"]

Record = Mapping[str, Any]
ORACLE = "oracle_"
COLLAPSED = 0.5
"""A cell with a greater share of skip connections and `none` than this has collapsed."""


@dataclass(frozen=True)
class RunResult:
    """A finished run: the record of the epoch whose architecture it returned, and the time of all epochs."""

    run: PlannedRun
    final: Record
    seconds: float

    @property
    def genotype(self) -> str | None:
        """The architecture found; None if all choices tie."""
        found = self.final.get("genotype")
        return None if found is None else str(found)

    @property
    def collapsed(self) -> bool:
        """Whether skip connections and `none` are more than half of the architecture."""
        return share_of(self.final, SKIP) + share_of(self.final, "none") > COLLAPSED


@dataclass(frozen=True)
class BenchmarkResults:
    """The finished runs of one benchmark, by variant and seed; ``failed`` are the reasons of those without a result."""

    benchmark: Benchmark
    runs: Mapping[str, Mapping[int, RunResult]]
    seeds: tuple[int, ...]
    failed: Mapping[str, str]

    @property
    def measures(self) -> list[str]:
        """The measures that any finished run has; a run whose choices all tie has no accuracy in a table."""
        finals = [one.final for runs in self.runs.values() for one in runs.values()]
        return sorted({name for one in finals for name in one if number_in(one, name) is not None})

    @property
    def metric(self) -> MetricInfo:
        """The main metric of the runs."""
        return MetricInfo.of_record(next(one.final for runs in self.runs.values() for one in runs.values()))

    @property
    def usual_measure(self) -> str:
        """The accuracy in the table on the searched data, or on the first data set; else the held-out main metric."""
        oracles = [name for name in self.measures if name.startswith(ORACLE) and self._in_all_variants(name)]
        own = [name for name in oracles if name.startswith(f"{ORACLE}{self.benchmark.data}_")]
        return (own or oracles or [f"heldout_{self.metric.name}"])[0]

    def _in_all_variants(self, measure: str) -> bool:
        variants = [runs.values() for runs in self.runs.values() if runs]
        return all(any(number_in(run.final, measure) is not None for run in runs) for runs in variants)

    def check_measure(self, measure: str) -> None:
        """Raise a UserError unless a finished run has this measure."""
        if measure not in self.measures:
            raise unknown(f"measure of {self.benchmark.name}:", measure, self.measures)

    def values(self, measure: str) -> dict[str, dict[int, float | None]]:
        """Return one measure by variant and seed; None for runs without a result."""
        self.check_measure(measure)
        return {
            variant: {seed: None if seed not in runs else number_in(runs[seed].final, measure) for seed in self.seeds}
            for variant, runs in self.runs.items()
        }


def read_results(folder: StudyFolder, plan: StudyPlan) -> list[BenchmarkResults]:
    """Read the results of all finished runs, benchmark by benchmark; benchmarks without one are left out."""
    failures, found = folder.failures(), []
    for benchmark in plan.benchmarks:
        runs: dict[str, dict[int, RunResult]] = {variant.name: {} for variant in plan.variants}
        failed = dict[str, str]()
        for run in plan.runs():
            if run.benchmark == benchmark and folder.is_finished(run):
                runs[run.variant.name][run.seed] = read_run(folder, run)
            elif run.benchmark == benchmark and run.name in failures:
                failed[run.name] = failures[run.name]
        if any(runs.values()):
            found.append(BenchmarkResults(benchmark, runs, plan.seeds, failed))
    if not found:
        reasons = "; ".join(f"{name}: {why}" for name, why in list(failures.items())[:3])
        why = f" ({reasons})" if reasons else ""
        raise UserError(f"the study {folder.path} has no finished run{why}; `archgrad compare {folder.path}` goes on.")
    return found


def read_run(folder: StudyFolder, run: PlannedRun) -> RunResult:
    """Read the result of a finished run."""
    records = read_records(folder.run_folder(run))
    if not records:
        raise UserError(f"the run {folder.run_folder(run)} is finished, but has no records; delete it to repeat it.")
    return RunResult(run, records[returned_epoch(records) - 1], total_seconds(records))


def returned_epoch(records: Sequence[Record]) -> int:
    """Return the epoch, counted from 1, whose architecture a search returned: the last one unless it stopped early."""
    return int(records[-1].get("stopped_to") or len(records))


def total_seconds(records: Sequence[Record]) -> float:
    """Return the time of all epochs."""
    return sum(number_in(record, "seconds") or 0.0 for record in records)
