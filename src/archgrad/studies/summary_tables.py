"""The tables of a study: a short one to read first, one with all else, the pairs, the ranks, and plain numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from archgrad.studies.comparisons import shown_seeds
from archgrad.studies.intervals import Interval
from archgrad.studies.results import COLLAPSED, ORACLE
from archgrad.studies.statistics import Summary, average_ranks
from archgrad.studies.summary import BenchmarkSummary, VariantSummary
from archgrad.studies.tables import Cell, Column, ResultTable, plus_minus

__all__ = ["detail_table", "main_table", "number_table", "pair_table", "rank_table"]

Cells = dict[str, Cell]


def _table(rows: Sequence[Cells], notes: Sequence[str] = ()) -> ResultTable:
    """Return a table with all columns that any row has."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    return ResultTable(
        tuple(map(Column, names)), tuple(tuple(row.get(name) for name in names) for row in rows), tuple(notes)
    )


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
        cells |= {"collapsed": f"{one.collapsed.count} of {one.collapsed.total}", "minutes": one.minutes}
        rows.append(cells | _published_cells(summary, one))
    return _table(rows, list(_notes(summary)))


def _published_names(summary: BenchmarkSummary) -> list[str]:
    """Return the names of the columns of published results; a column has one protocol."""
    several = len(summary.published) > 1
    return [f"published {number}" if several else "published" for number, _ in zip(count(1), summary.published)]


def _published_cells(summary: BenchmarkSummary, one: VariantSummary) -> Cells:
    if one.variant.options.get("settings"):
        return {}
    columns = zip(_published_names(summary), summary.published.values(), strict=True)
    told = {name: " / ".join(map(str, column.get(one.variant.method, ()))) for name, column in columns}
    return {name: text for name, text in told.items() if text}


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
    for name, (protocol, column) in zip(_published_names(summary), summary.published.items(), strict=True):
        sources = "; ".join(f"{method}: {one.source}" for method, told in column.items() for one in told)
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
            "agreement of seeds (τ)": one.agreement.tau,
        }
        if one.place is not None:
            cells["regret"] = one.place.regret
        rows.append(cells | {name: plus_minus(other.mean, other.std) for name, other in one.others.items()})
    notes = (
        "agreement of seeds: Kendall's correlation of the operations' final mean probabilities, over pairs of seeds.",
    )
    return _table(rows, notes)


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
        for pair in summary.pairs
    ]
    return _table(
        rows or [{"first": None, "second": None}],
        (
            "first − second, paired over seeds; p by permutation of signs.",
            "seeds needed: for 80 % power, if this were the true difference.",
        ),
    )


def rank_table(summaries: Sequence[BenchmarkSummary]) -> ResultTable | None:
    """Return the average rank of the variants over several benchmarks, None for one benchmark."""
    if len(summaries) < 2:
        return None
    everyone = dict.fromkeys(one.variant.name for summary in summaries for one in summary.variants)
    means: dict[str, Mapping[str, float | None]] = {}
    for summary in summaries:
        sign = 1.0 if summary.higher_is_better else -1.0
        means[summary.benchmark] = {
            **dict.fromkeys(everyone),
            **{one.variant.name: sign * one.value.mean for one in summary.variants},
        }
    ranks = average_ranks(means)
    rows: list[Cells] = [
        {"variant": name, "average rank": rank} for name, rank in sorted(ranks.ranks.items(), key=lambda one: one[1])
    ]
    left = [f"{benchmark} is left out: it lacks {', '.join(names)}." for benchmark, names in ranks.left_out.items()]
    over = f"over {', '.join(ranks.datasets)}" if ranks.datasets else "no benchmark has all variants"
    return _table(rows or [{"variant": None, "average rank": None}], [over, *left])


def number_table(summaries: Sequence[BenchmarkSummary]) -> ResultTable:
    """Return plain numbers of all variants on all benchmarks, for programs."""
    rows = [_numbers(summary, one) for summary in summaries for one in summary.variants]
    return _table(rows, [f"{summary.benchmark}: {note}" for summary in summaries for note in _notes(summary)])


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
        "collapsed": one.collapsed.count,
        "collapsed low": one.collapsed.interval.low,
        "collapsed high": one.collapsed.interval.high,
        "minutes": one.minutes,
        "seed agreement": one.agreement.tau,
    }
    if one.place is not None:
        cells |= {"cells": one.place.cells, "worse cells (%)": one.place.worse, "regret": one.place.regret}
    for name, other in one.others.items():
        cells |= _numbers_of(f"{name} ", other)
    return cells | _published_cells(summary, one)


def _numbers_of(prefix: str, summary: Summary) -> Cells:
    low, high = summary.interval or (None, None)
    found: dict[str, Any] = {"runs": summary.runs, "mean": summary.mean, "std": summary.std, "low": low, "high": high}
    return {f"{prefix}{name}": value for name, value in found.items()}


def _shown_interval(interval: Interval | None) -> str | None:
    return None if interval is None else f"{interval.low:.2f} to {interval.high:.2f}"


def _shown_share(interval: Interval) -> str:
    return f"{100 * interval.low:.0f}–{100 * interval.high:.0f} %"
