"""What a study says about a benchmark: the table of its variants, their differences, and the verdict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from archgrad.studies.comparisons import Comparison, Verdict, compare_all, decide, shown_seeds
from archgrad.studies.fairness import differences
from archgrad.studies.intervals import Interval
from archgrad.studies.plan import PlannedRun, StudyPlan, Variant
from archgrad.studies.published_results import published
from archgrad.studies.results import COLLAPSED, ORACLE, BenchmarkResults, RunResult
from archgrad.studies.statistics import average_ranks, share_of_runs, standing, summarize
from archgrad.studies.tables import Cell, Column, Table, plus_minus
from archgrad.tables import tables_for

__all__ = ["BenchmarkSummary", "rank_table", "summarize_benchmark"]

_LOWER = ("loss", "error", "entropy", "regret", "seconds", "skip")
"""Words in the names of measures of which less is better."""


@dataclass(frozen=True)
class BenchmarkSummary:
    """The table of a benchmark by one measure, the differences of all pairs of variants, and the verdict."""

    benchmark: str
    measure: str
    table: Table
    pairs: Table
    verdict: Verdict


def summarize_benchmark(plan: StudyPlan, results: BenchmarkResults, measure: str | None = None) -> BenchmarkSummary:
    """Summarize the runs of a benchmark by a measure, by default the accuracy in the table on the searched data."""
    measure = results.usual_measure if measure is None else measure
    higher = _higher_is_better(measure, results)
    values = {name: own for name, own in results.values(measure).items() if _numbers(own)}
    rows = [
        _Row(plan, results, variant, measure, higher).cells() for variant in plan.variants if variant.name in values
    ]
    columns = tuple(Column(name) for name in dict.fromkeys(name for row in rows for name in row))
    table = Table(
        columns,
        tuple(tuple(row.get(column.name) for column in columns) for row in rows),
        tuple(_notes(plan, results, measure)),
    )
    verdict = decide(values, higher_is_better=higher)
    return BenchmarkSummary(results.benchmark.name, measure, table, _pairs_table(compare_all(values)), verdict)


@dataclass(frozen=True)
class _Row:
    """One variant in the table of a benchmark."""

    plan: StudyPlan
    results: BenchmarkResults
    variant: Variant
    measure: str
    higher: bool

    def cells(self) -> dict[str, Cell]:
        runs = list(self.results.runs[self.variant.name].values())
        found = [value for value in (_value(run, self.measure) for run in runs) if value is not None]
        all_ = summarize(found, higher_is_better=self.higher)
        cells: dict[str, Cell] = {
            "variant": self.variant.name,
            "runs": f"{len(found)} of {len(self.results.seeds)}",
            self.measure: plus_minus(all_.mean, all_.std),
            "95 % interval": _shown_interval(all_.interval),
            "median": all_.median,
            "best": all_.best,
            "worst": all_.worst,
        }
        collapsed = share_of_runs([run.collapsed for run in runs])
        cells |= self._place(found)
        cells |= {name: self._other(name, runs) for name in self._others}
        cells["collapsed"] = f"{collapsed.count} of {collapsed.total} ({_shown_share(collapsed.interval)})"
        cells["minutes"] = summarize([run.seconds / 60 for run in runs]).mean
        return cells | self._published()

    @property
    def _others(self) -> list[str]:
        """The accuracies in the table on other data sets."""
        return [name for name in self.results.measures if name.startswith(ORACLE) and name != self.measure]

    def _other(self, measure: str, runs: Sequence[RunResult]) -> str:
        found = summarize([value for run in runs if (value := _value(run, measure)) is not None])
        return plus_minus(found.mean, found.std)

    def _place(self, found: Sequence[float]) -> dict[str, Cell]:
        """Return the mean regret, and the mean share of the space that is worse, where a table has all of it."""
        run = PlannedRun(self.results.benchmark, self.variant, self.plan.seeds[0])
        space = self.plan.space(run)
        known = (table.values(space, self.measure) for table in tables_for(space.name))
        everything = next((values for values in known if values is not None), None)
        if everything is None:
            return {}
        best = max(everything)
        shares = [100 * standing(value, everything).share_worse for value in found]
        return {
            f"worse cells of {len(everything):,} (%)": summarize(shares).mean,
            "regret": summarize([best - value for value in found]).mean,
        }

    def _published(self) -> dict[str, Cell]:
        """Return what the papers report of this method on this benchmark."""
        told = published(self.variant.method, self.results.benchmark.space, self.results.benchmark.data)
        return (
            {"published": "; ".join(f"{plus_minus(one.mean, one.std)} ({one.source})" for one in told)} if told else {}
        )


def _value(run: RunResult, measure: str) -> float | None:
    value = run.final.get(measure)
    return None if value is None else float(value)


def _numbers(values: Mapping[int, float | None]) -> list[float]:
    return [value for value in values.values() if value is not None]


def _higher_is_better(measure: str, results: BenchmarkResults) -> bool:
    metric = results.metric
    return metric.higher_is_better if measure.endswith(metric.name) else not any(word in measure for word in _LOWER)


def _shown_interval(interval: Interval | None) -> str | None:
    return None if interval is None else f"{interval.low:.2f} to {interval.high:.2f}"


def _shown_share(interval: Interval) -> str:
    return f"{100 * interval.low:.0f}–{100 * interval.high:.0f} %"


def _notes(plan: StudyPlan, results: BenchmarkResults, measure: str) -> Iterator[str]:
    """Yield what a reader must know of the table."""
    yield "± is the standard deviation over seeds; the interval is that of the mean, by the bootstrap-t."
    yield f"collapsed: more than {100 * COLLAPSED:.0f} % of the cell are skip connections or none; Wilson's interval."
    if not measure.startswith(ORACLE):
        yield (
            f"{measure} is measured with the shared weights of the search, not by training what was found: "
            f"`archgrad train` does that."
        )
    for name, reason in results.failed.items():
        yield f"failed: {name}: {reason}"
    for sentence in differences(plan, results.benchmark):
        yield f"not the same for all: {sentence}."


def _pairs_table(pairs: Sequence[Comparison]) -> Table:
    """Return the paired differences of all variants over their seeds."""
    columns = (
        "first",
        "second",
        "seeds",
        "difference",
        "95 % interval",
        "p",
        "p after Holm",
        "told apart",
        "seeds needed",
    )
    rows = [
        (
            pair.first,
            pair.second,
            len(pair.seeds),
            None if pair.difference is None else plus_minus(pair.difference, pair.std),
            _shown_interval(pair.interval),
            None if pair.p is None else f"{pair.p:.3g}",
            None if pair.p_holm is None else f"{pair.p_holm:.3g}",
            pair.told_apart,
            shown_seeds(pair.seeds_needed),
        )
        for pair in pairs
    ]
    notes = (
        "first − second, paired over seeds; p by permutation of signs.",
        "seeds needed: for 80 % power, if this were the true difference.",
    )
    return Table(tuple(map(Column, columns)), tuple(rows), notes)


def rank_table(summaries: Sequence[tuple[BenchmarkResults, BenchmarkSummary]]) -> Table | None:
    """Return the average rank of the variants over several benchmarks, None for one benchmark."""
    if len(summaries) < 2:
        return None
    means = {
        summary.benchmark: {
            name: summarize(_numbers(own)).mean if _numbers(own) else None
            for name, own in results.values(summary.measure).items()
        }
        for results, summary in summaries
    }
    ranks = average_ranks(means)
    rows = tuple((name, rank) for name, rank in sorted(ranks.ranks.items(), key=lambda one: one[1]))
    left = tuple(
        f"{benchmark} is left out: it lacks {', '.join(names)}." for benchmark, names in ranks.left_out.items()
    )
    return Table((Column("variant"), Column("average rank")), rows, (f"over {', '.join(ranks.datasets)}", *left))
