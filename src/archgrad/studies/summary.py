"""What a study says about a benchmark: every variant in numbers, their differences, the verdict, and the tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from archgrad.diagnostics.records import number_in
from archgrad.studies.comparisons import Verdict, decide, shown_seeds
from archgrad.studies.fairness import differences
from archgrad.studies.plan import PlannedRun, StudyPlan, Variant
from archgrad.studies.published_results import PublishedProtocol, PublishedResult, published_by_protocol
from archgrad.studies.results import COLLAPSED, ORACLE, BenchmarkResults, RunResult
from archgrad.studies.statistics import Interval, Share, Summary, seed_agreement, share_of_runs, summarize
from archgrad.studies.tables import Cell, ResultTable, plus_minus
from archgrad.tables import datasets, tables_for

__all__ = [
    "BenchmarkSummary",
    "Place",
    "VariantSummary",
    "detail_table",
    "main_table",
    "number_table",
    "pair_table",
    "rank_table",
    "summarize_benchmark",
]

_LOWER = ("loss", "error", "entropy", "regret", "seconds", "skip")
"""Words in the names of measures of which less is better."""
_PROBABILITY = "probability_"
Published = Mapping[PublishedProtocol, Mapping[str, tuple[PublishedResult, ...]]]
"""Published results by protocol and method."""
Cells = dict[str, Cell]


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
    final probabilities, averaged over pairs of seeds. ``place`` is None where no table has the whole space.
    """

    variant: Variant
    value: Summary
    collapsed: Share
    minutes: float
    others: Mapping[str, Summary]
    agreement: float | None
    place: Place | None


@dataclass(frozen=True)
class BenchmarkSummary:
    """All variants on a benchmark by one measure, what is published of them, and the verdict.

    ``unlike`` are sentences on what was not the same for all, ``failed`` the reasons of runs without a result.
    """

    benchmark: str
    measure: str
    higher_is_better: bool
    seeds: tuple[int, ...]
    variants: tuple[VariantSummary, ...]
    published: Published
    verdict: Verdict
    unlike: tuple[str, ...]
    failed: Mapping[str, str]


def summarize_benchmark(plan: StudyPlan, results: BenchmarkResults, measure: str | None = None) -> BenchmarkSummary:
    """Summarize the runs of a benchmark by a measure, by default the accuracy in the table on the searched data."""
    measure = results.usual_measure if measure is None else measure
    metric = results.metric
    named_lower = any(word in measure for word in _LOWER)
    higher = metric.higher_is_better if measure.endswith(metric.name) else not named_lower
    measured = results.values(measure)
    values = {name: own for name, own in measured.items() if any(value is not None for value in own.values())}
    variants = [one for one in plan.variants if one.name in values]
    return BenchmarkSummary(
        results.benchmark.name, measure, higher, results.seeds,
        tuple(_summary(plan, results, variant, measure, higher) for variant in variants),
        _published(variants, results, measure),
        decide(values, higher_is_better=higher),
        (*differences(plan, results.benchmark), *_machines(results)),
        results.failed,
    )  # fmt: skip


def _machines(results: BenchmarkResults) -> list[str]:
    """Say which machines and versions have computed the runs, if they are not all the same."""
    told = sorted({run.machine for runs in results.runs.values() for run in runs.values() if run.machine is not None})
    return [f"machine and versions: {' / '.join(told)}"] if len(told) > 1 else []


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
        _agreement(runs),
        _place(plan, PlannedRun(results.benchmark, variant, plan.seeds[0]), measure, found),
    )


def _values(runs: Sequence[RunResult], measure: str) -> list[float]:
    return [value for run in runs if (value := number_in(run.final, measure)) is not None]


def _agreement(runs: Sequence[RunResult]) -> float | None:
    """Correlate the mean final probabilities of the operations between seeds."""
    named = [
        {name for name in run.final if name.startswith(_PROBABILITY) and number_in(run.final, name) is not None}
        for run in runs
    ]
    shared = sorted(set.intersection(*named))
    if len(shared) < 2:
        return None
    return seed_agreement([[float(run.final[name]) for name in shared] for run in runs])


def _place(plan: StudyPlan, run: PlannedRun, measure: str, found: Sequence[float]) -> Place | None:
    from scipy.stats import percentileofscore

    space = plan.space(run)
    known = (table.values(space, measure) for table in tables_for(space.name))
    everything = next((values for values in known if values is not None), None)
    if everything is None:
        return None
    worse = [float(percentileofscore(everything, value, kind="strict")) for value in found]
    lost = [max(everything) - value for value in found]
    return Place(len(everything), summarize(worse).mean, summarize(lost).mean)


def _published(variants: Sequence[Variant], results: BenchmarkResults, measure: str) -> Published:
    """Return what papers report of the methods that are compared with their published settings."""
    methods = dict.fromkeys(one.method for one in variants if not one.options.get("settings"))
    known = (data for data in datasets() if measure.startswith(f"{ORACLE}{data}_"))
    data = next(known, results.benchmark.data)
    return published_by_protocol(methods, results.benchmark.space, data, results.benchmark.data)


def main_table(summary: BenchmarkSummary) -> ResultTable:
    """Return the table to read first."""
    rows = []
    for one in summary.variants:
        cells: Cells = {
            "variant": one.variant.name,
            "runs": f"{one.value.runs} of {len(summary.seeds)}",
            "mean ± std": plus_minus(one.value.mean, one.value.std),
            "95 % interval": _shown_interval(one.value.interval),
        }
        if one.place is not None:
            cells["worse cells (%)"] = one.place.worse
        cells |= {"collapsed": f"{one.collapsed.having} of {one.collapsed.runs}", "minutes": one.minutes}
        rows.append(cells | _published_cells(summary, one))
    return ResultTable(tuple(rows), tuple(_notes(summary)))


def _published_columns(summary: BenchmarkSummary) -> dict[str, PublishedProtocol]:
    """Return the names of the columns of published results; a column has one protocol."""
    several = len(summary.published) > 1
    return {f"published {number}" if several else "published": one for number, one in enumerate(summary.published, 1)}


def _published_cells(summary: BenchmarkSummary, one: VariantSummary) -> Cells:
    if one.variant.options.get("settings"):
        return {}
    columns = {name: summary.published[protocol] for name, protocol in _published_columns(summary).items()}
    return {
        name: " / ".join(map(str, column[one.variant.method]))
        for name, column in columns.items()
        if one.variant.method in column
    }


def _notes(summary: BenchmarkSummary) -> Iterator[str]:
    """Yield what a reader must know of the table."""
    yield "± is the standard deviation over seeds; the interval is that of the mean, by the bootstrap-t."
    place = next((one.place for one in summary.variants if one.place is not None), None)
    if place is not None:
        yield f"worse cells: the share of all {place.cells:,} cells of the space that are worse, mean over runs."
    yield f"collapsed: more than {100 * COLLAPSED:.0f} % of the cell are skip connections or none."
    if not summary.measure.startswith(ORACLE):
        yield (
            f"{summary.measure} is measured with the shared weights of the search, not by training what was found: "
            f"`archgrad train` does that."
        )
    for name, protocol in _published_columns(summary).items():
        told = summary.published[protocol].items()
        sources = "; ".join(f"{method}: {one.source}" for method, results in told for one in results)
        yield f"{name}: {protocol}. {sources}."
    for name, reason in summary.failed.items():
        yield f"failed: {name}: {reason}"
    for sentence in summary.unlike:
        yield f"not the same for all: {sentence}."


def detail_table(summary: BenchmarkSummary) -> ResultTable:
    """Return what the main table leaves out."""
    rows = []
    for one in summary.variants:
        cells: Cells = {
            "variant": one.variant.name,
            "median": one.value.median,
            "best": one.value.best,
            "worst": one.value.worst,
            "collapsed, 95 % interval": _shown_share(one.collapsed.interval),
            "agreement of seeds (τ)": one.agreement,
        }
        if one.place is not None:
            cells["regret"] = one.place.regret
        rows.append(cells | {name: plus_minus(other.mean, other.std) for name, other in one.others.items()})
    agreement = "Kendall's correlation of the operations' final mean probabilities, over pairs of seeds"
    return ResultTable(tuple(rows), (f"agreement of seeds: {agreement}.",))


def pair_table(summary: BenchmarkSummary) -> ResultTable:
    """Return the paired differences of all variants over their seeds."""
    rows: list[Cells] = [
        {
            "first": pair.first,
            "second": pair.second,
            "seeds": len(pair.seeds),
            "difference": None if pair.difference is None else plus_minus(pair.difference, pair.std),
            "95 % interval": _shown_interval(pair.interval),
            "p": None if pair.p is None else f"{pair.p:.3g}",
            "p after Holm": None if pair.p_holm is None else f"{pair.p_holm:.3g}",
            "told apart": pair.told_apart,
            "seeds needed": shown_seeds(pair.seeds_needed),
        }
        for pair in summary.verdict.pairs
    ]
    notes = (
        "first − second, paired over seeds; p by permutation of signs.",
        "seeds needed: for 80 % power, if this were the true difference.",
    )
    return ResultTable(tuple(rows) or ({"first": None, "second": None},), notes)


def rank_table(summaries: Sequence[BenchmarkSummary]) -> ResultTable | None:
    """Return the mean rank of the variants, 1 the best, over the benchmarks that have all; None for one benchmark."""
    from scipy.stats import rankdata

    if len(summaries) < 2:
        return None
    means = {
        one.benchmark: {own.variant.name: own.value.mean * (-1 if one.higher_is_better else 1) for own in one.variants}
        for one in summaries
    }
    names = list(dict.fromkeys(name for row in means.values() for name in row))
    lacking = {benchmark: [name for name in names if name not in row] for benchmark, row in means.items()}
    complete = [benchmark for benchmark, absent in lacking.items() if not absent]
    notes = [
        f"{benchmark} is left out: it lacks {', '.join(absent)}." for benchmark, absent in lacking.items() if absent
    ]
    if not complete:
        return ResultTable(({"variant": None, "average rank": None},), ("no benchmark has all variants", *notes))
    ranks = rankdata([[means[benchmark][name] for name in names] for benchmark in complete], axis=1).mean(axis=0)
    ordered = sorted(zip(names, ranks.tolist(), strict=True), key=lambda one: one[1])
    rows: list[Cells] = [{"variant": name, "average rank": rank} for name, rank in ordered]
    return ResultTable(tuple(rows), (f"over {', '.join(complete)}", *notes))


def number_table(summaries: Sequence[BenchmarkSummary]) -> ResultTable:
    """Return plain numbers of all variants on all benchmarks, for programs."""
    rows = [_numbers(summary, one) for summary in summaries for one in summary.variants]
    notes = [f"{summary.benchmark}: {note}" for summary in summaries for note in _notes(summary)]
    return ResultTable(tuple(rows), tuple(notes))


def _numbers(summary: BenchmarkSummary, one: VariantSummary) -> Cells:
    cells: Cells = {
        "benchmark": summary.benchmark,
        "measure": summary.measure,
        "variant": one.variant.name,
        "method": one.variant.method,
        "planned runs": len(summary.seeds),
        **_numbers_of("", one.value),
        "median": one.value.median,
        "best": one.value.best,
        "worst": one.value.worst,
        "collapsed": one.collapsed.having,
        "collapsed low": one.collapsed.interval.low,
        "collapsed high": one.collapsed.interval.high,
        "minutes": one.minutes,
        "seed agreement": one.agreement,
    }
    if one.place is not None:
        cells |= {"cells": one.place.cells, "worse cells (%)": one.place.worse, "regret": one.place.regret}
    for name, other in one.others.items():
        cells |= _numbers_of(f"{name} ", other)
    return cells | _published_cells(summary, one)


def _numbers_of(prefix: str, summary: Summary) -> Cells:
    low, high = summary.interval or (None, None)
    found: Cells = {"runs": summary.runs, "mean": summary.mean, "std": summary.std, "low": low, "high": high}
    return {f"{prefix}{name}": value for name, value in found.items()}


def _shown_interval(interval: Interval | None) -> str | None:
    return None if interval is None else f"{interval.low:.2f} to {interval.high:.2f}"


def _shown_share(interval: Interval) -> str:
    return f"{100 * interval.low:.0f}–{100 * interval.high:.0f} %"
