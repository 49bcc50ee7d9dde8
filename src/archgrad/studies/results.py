"""The results of a study's runs, as their run directories tell them, and the architectures that most of them found."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from archgrad.config.resolve import space_of, task_of
from archgrad.diagnostics.records import Record, number_in, share_of
from archgrad.errors import UserError, unknown
from archgrad.loop import SearchResult
from archgrad.loop.folder import read_records
from archgrad.spaces import SKIP, Cost, Genotype
from archgrad.spaces.cost_model import NetworkShape
from archgrad.studies.folder import StudyFolder
from archgrad.studies.plan import Benchmark, PlannedRun, StudyPlan
from archgrad.system.files import read_text
from archgrad.tables import tables_for
from archgrad.tasks import MetricInfo

__all__ = [
    "COLLAPSED",
    "ORACLE",
    "BenchmarkResults",
    "RunResult",
    "TopArchitecture",
    "read_results",
    "top_of_benchmark",
    "top_of_run",
]

ORACLE = "oracle_"
COLLAPSED = 0.5
"""A cell with a greater share of skip connections and `none` than this has collapsed."""


@dataclass(frozen=True)
class RunResult:
    """A finished run: the record of the epoch whose architecture it returned, and the time of all epochs.

    ``machine`` says where it was computed, and with which versions; None in runs of an earlier version.
    """

    run: PlannedRun
    final: Record
    seconds: float
    machine: str | None = None

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
                runs[run.variant.name][run.seed] = _read_run(folder.run_folder(run), run)
            elif run.benchmark == benchmark and run.name in failures:
                failed[run.name] = failures[run.name]
        if any(runs.values()):
            found.append(BenchmarkResults(benchmark, runs, plan.seeds, failed))
    if not found:
        reasons = "; ".join(f"{name}: {why}" for name, why in list(failures.items())[:3])
        why = f" ({reasons})" if reasons else ""
        raise UserError(f"the study {folder.path} has no finished run{why}; `archgrad compare {folder.path}` goes on.")
    return found


def _read_run(home: Path, run: PlannedRun) -> RunResult:
    """Read the result of a finished run; its architecture is that of the last epoch unless it stopped early."""
    records = read_records(home)
    if not records:
        raise UserError(f"the run {home} is finished, but has no records; delete it to repeat it.")
    returned = int(records[-1].get("stopped_to") or len(records))
    seconds = sum(number_in(record, "seconds") or 0.0 for record in records)
    return RunResult(run, records[returned - 1], seconds, _machine(home))


def _machine(home: Path) -> str | None:
    """Return what the summary of a run says of its machine and of its versions."""
    try:
        summary = json.loads(read_text(home / "summary.json", "summary"))
        machine = summary["machine"]
        versions = f"archgrad {summary['archgrad']}, torch {machine['torch']}, Python {machine['python']}"
        return f"{machine['processor']}, {machine['cores']} cores, {versions}"
    except (ValueError, KeyError, TypeError):
        return None


@dataclass(frozen=True)
class TopArchitecture:
    """An architecture with the size of its network as searched, and its accuracies where a table has them.

    ``score`` is the product of the probabilities that chose it in a search, and ``votes`` the number of runs of a study
    that found it, ``of`` all finished ones.
    """

    genotype: Genotype
    cost: Cost
    accuracies: Mapping[str, float]
    score: float | None = None
    votes: int | None = None
    of: int | None = None

    def __str__(self) -> str:
        by = f"score {self.score:.3g}" if self.score is not None else f"found by {self.votes} of {self.of} runs"
        known = [f"{name} {accuracy:.2f}" for name, accuracy in self.accuracies.items()]
        return f"{self.genotype}\n    {', '.join([by, str(self.cost), *known])}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        found = {"genotype": str(self.genotype), "score": self.score, "votes": self.votes, "of": self.of}
        plain = {name: value for name, value in found.items() if value is not None}
        return {**plain, **asdict(self.cost), "accuracies": dict(self.accuracies)}


def top_of_run(folder: Path | str, k: int) -> list[TopArchitecture]:
    """Return the k most probable architectures of a finished search."""
    result = SearchResult.load(folder)
    return [
        TopArchitecture(one, result.cost(one), _accuracies(result.space.name, one), score=score)
        for one, score in result.top(k)
    ]


def top_of_benchmark(plan: StudyPlan, results: BenchmarkResults, k: int) -> list[TopArchitecture]:
    """Return the k architectures that most runs of a benchmark found; the one found first leads a tie."""
    runs = [run for seed in results.seeds for own in results.runs.values() if (run := own.get(seed)) is not None]
    votes = Counter(run.genotype for run in runs if run.genotype is not None)
    config = plan.config(PlannedRun(results.benchmark, plan.variants[0], plan.seeds[0]))
    space, data = space_of(config), config.load_data()
    shape = NetworkShape(task_of(config).outputs(data), data.channels, data.image_size)
    found = []
    for text, count in votes.most_common(k):
        genotype = Genotype.parse(text)
        accuracies = _accuracies(space.name, genotype)
        found.append(
            TopArchitecture(genotype, space.cost(genotype, **shape._asdict()), accuracies, votes=count, of=len(runs))
        )
    return found


def _accuracies(space: str, genotype: Genotype) -> dict[str, float]:
    return {name: value for table in tables_for(space) for name, value in table.accuracies(genotype).items()}
