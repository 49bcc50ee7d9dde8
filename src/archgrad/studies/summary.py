"""What a study says about a benchmark: every variant in numbers, their differences, and the verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from archgrad.diagnostics.records import number_in
from archgrad.studies.comparisons import Comparison, Verdict, compare_all, decide
from archgrad.studies.fairness import differences
from archgrad.studies.plan import PlannedRun, StudyPlan, Variant
from archgrad.studies.published_results import Protocol, PublishedResult, published_by_protocol
from archgrad.studies.results import ORACLE, BenchmarkResults, RunResult
from archgrad.studies.statistics import (
    Agreement,
    Share,
    Summary,
    regret,
    seed_agreement,
    share_of_runs,
    standing,
    summarize,
)
from archgrad.tables import datasets, tables_for

__all__ = ["BenchmarkSummary", "Place", "Published", "VariantSummary", "numbers", "summarize_benchmark"]

_LOWER = ("loss", "error", "entropy", "regret", "seconds", "skip")
"""Words in the names of measures of which less is better."""
_PROBABILITY = "probability_"
Published = Mapping[Protocol, Mapping[str, tuple[PublishedResult, ...]]]
"""Published results by protocol and method."""


@dataclass(frozen=True)
class Place:
    """The mean place of a variant's cells among all ``cells`` of the space: percent that are worse, and regret."""

    cells: int
    worse: float
    regret: float


@dataclass(frozen=True)
class VariantSummary:
    """The finished runs of a variant by one measure.

    ``others`` are accuracies on other data sets of the table. ``agreement`` is Kendall's correlation of the operations'
    final probabilities between seeds. ``place`` is None where no table has the whole space.
    """

    variant: Variant
    value: Summary
    collapsed: Share
    minutes: float
    others: Mapping[str, Summary]
    agreement: Agreement
    place: Place | None


@dataclass(frozen=True)
class BenchmarkSummary:
    """All variants on a benchmark by one measure, what is published of them, all their pairs, and the verdict.

    ``unlike`` are sentences on what was not the same for all, ``failed`` the reasons of runs without a result.
    """

    benchmark: str
    measure: str
    higher_is_better: bool
    seeds: tuple[int, ...]
    variants: tuple[VariantSummary, ...]
    published: Published
    pairs: tuple[Comparison, ...]
    verdict: Verdict
    unlike: tuple[str, ...]
    failed: Mapping[str, str]


def summarize_benchmark(plan: StudyPlan, results: BenchmarkResults, measure: str | None = None) -> BenchmarkSummary:
    """Summarize the runs of a benchmark by a measure, by default the accuracy in the table on the searched data."""
    measure = results.usual_measure if measure is None else measure
    higher = higher_is_better(measure, results)
    values = {name: own for name, own in results.values(measure).items() if numbers(own)}
    variants = [one for one in plan.variants if one.name in values]
    return BenchmarkSummary(
        results.benchmark.name, measure, higher, results.seeds,
        tuple(_summary(plan, results, variant, measure, higher) for variant in variants),
        _published(variants, results, measure),
        tuple(compare_all(values)),
        decide(values, higher_is_better=higher),
        tuple(differences(plan, results.benchmark)),
        results.failed,
    )  # fmt: skip


def _summary(
    plan: StudyPlan, results: BenchmarkResults, variant: Variant, measure: str, higher: bool
) -> VariantSummary:
    runs = list(results.runs[variant.name].values())
    others = {name: _values(runs, name) for name in results.measures if name.startswith(ORACLE) and name != measure}
    found = _values(runs, measure)
    return VariantSummary(
        variant,
        summarize(found, higher_is_better=higher),
        share_of_runs(run.collapsed for run in runs),
        summarize([run.seconds / 60 for run in runs]).mean,
        {name: summarize(values) for name, values in others.items() if values},
        _agreement(results.runs[variant.name]),
        _place(plan, PlannedRun(results.benchmark, variant, plan.seeds[0]), measure, found),
    )


def _values(runs: Sequence[RunResult], measure: str) -> list[float]:
    return numbers({run.run.seed: number_in(run.final, measure) for run in runs})


def numbers(values: Mapping[int, float | None]) -> list[float]:
    """Return the values of the runs that have one."""
    return [value for value in values.values() if value is not None]


def _agreement(runs: Mapping[int, RunResult]) -> Agreement:
    """Correlate the mean final probabilities of the operations between seeds."""
    named = {
        seed: {
            name: value
            for name in run.final
            if name.startswith(_PROBABILITY) and (value := number_in(run.final, name)) is not None
        }
        for seed, run in runs.items()
    }
    shared = sorted(set.intersection(*map(set, named.values()))) if named else []
    return seed_agreement({seed: [one[name] for name in shared] for seed, one in named.items() if len(shared) > 1})


def _place(plan: StudyPlan, run: PlannedRun, measure: str, found: Sequence[float]) -> Place | None:
    space = plan.space(run)
    known = (table.values(space, measure) for table in tables_for(space.name))
    everything = next((values for values in known if values is not None), None)
    if everything is None:
        return None
    worse = [100 * standing(value, everything).share_worse for value in found]
    lost = [regret(value, max(everything)) for value in found]
    return Place(len(everything), summarize(worse).mean, summarize(lost).mean)


def _published(variants: Sequence[Variant], results: BenchmarkResults, measure: str) -> Published:
    """Return what papers report of the methods that are compared with their published settings."""
    methods = dict.fromkeys(one.method for one in variants if not one.options.get("settings"))
    known = (data for data in datasets() if measure.startswith(f"{ORACLE}{data}_"))
    data = next(known, results.benchmark.data)
    return published_by_protocol(methods, results.benchmark.space, data, results.benchmark.data)


def higher_is_better(measure: str, results: BenchmarkResults) -> bool:
    """Tell the direction of a measure: that of the main metric, or by the words in its name."""
    metric = results.metric
    return metric.higher_is_better if measure.endswith(metric.name) else not any(word in measure for word in _LOWER)
