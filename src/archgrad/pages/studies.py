"""The page of a study: verdict, curves with bands, tables, what most runs found and how many collapsed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any

from archgrad.errors import ArchgradError
from archgrad.report.page import Cells, FoundCell, Group, Measure, Page, PageRun, PageTable, Scatter
from archgrad.report.page.records import HEALTH, RunRecords, measures_of, page_run, read_run
from archgrad.report.page.runs import band, bands_of, listing
from archgrad.studies import Study
from archgrad.studies.curves import MeanPoint, study_curves
from archgrad.studies.plan import PlannedRun
from archgrad.studies.results import BenchmarkResults, TopArchitecture
from archgrad.studies.summary import BenchmarkSummary, detail_table, main_table, pair_table
from archgrad.studies.tables import ResultTable
from archgrad.studies.vote import vote
from archgrad.tables import find_latencies

__all__ = ["page_of_study"]

_TOP = 6
_MOST_POINTS = 60
"""So many architectures are points of size against accuracy."""
_DEVICE = "raspi4"
"""The device whose latency stands against accuracy, unless all searches are for another."""
_SHOWN = 12
"""So many measures have curves, beside those of :data:`HEALTH`."""


@dataclass(frozen=True)
class _StudyRun:
    """A planned run of a study: the name of its group, its seed, and what its folder says."""

    group: str
    seed: int
    read: RunRecords


def page_of_study(folder: Path, links: Mapping[Path, str] | None = None) -> Page:
    """Return the page of a study; ``links`` are the addresses of its runs on a live page."""
    study = Study.load(folder)
    runs = [
        _StudyRun(_group(study, run), run.seed, read_run(study.folder.run_folder(run))) for run in study.plan.runs()
    ]
    groups = list(dict.fromkeys(run.group for run in runs))
    begun = [run for run in runs if run.read.records]
    known = measures_of([run.read for run in begun])
    measures = [one for at, one in enumerate(known) if at < _SHOWN or one.key in HEALTH]
    results, summaries, problem = _results(study)
    top, cells = _top(study), Cells()
    found = [*_voted(study, cells), *_found(top[:_TOP], cells)]
    drawn = _drawn(begun, groups, cells, measures)
    done = sum(run.read.finished for run in runs)
    return Page(
        title=folder.resolve().name,
        verdict=" ".join(str(one.verdict) for one in summaries) or problem,
        facts=_facts(study, done),
        measures=_main_first(measures, summaries),
        health=[name for name in HEALTH if any(one.key == name for one in measures)],
        groups=_groups(study, groups, summaries),
        runs=drawn,
        bands=_bands(study, groups, results, [(groups.index(run.group), run.read) for run in begun], measures),
        cells=cells.drawn,
        found=found,
        scatters=_scatters(top, study.plan.common.get("settings", {}).get("cost-penalty.device", _DEVICE)),
        tables=[table for one in summaries for table in _tables(one, len(summaries) > 1)],
        notes=[sentence for one in summaries for sentence in one.unlike],
        findings=[f"{name}: {reason}" for one in summaries for name, reason in one.failed.items()],
        commands=[f"archgrad {name} {quote(str(folder))}" for name in ("compare", "plot", "top")],
        listing=listing(study.folder.path, [run.read for run in runs], links or {}),
    )


def _results(study: Study) -> tuple[Sequence[BenchmarkResults], Sequence[BenchmarkSummary], str]:
    """Return results and summaries, or why there are none: no run is finished, or one is damaged."""
    try:
        return study.results, study.summaries(), ""
    except ArchgradError as error:
        return [], [], str(error)


def _drawn(
    runs: Sequence[_StudyRun], groups: Sequence[str], cells: Cells, measures: Sequence[Measure]
) -> list[PageRun]:
    """Return the runs for the page; the first of every group has the cell of every epoch, the others the last."""
    first = {run.group: run for run in reversed(runs)}
    return [
        page_run(
            run.read, f"{run.group}, seed {run.seed}", groups.index(run.group), cells, measures, first[run.group] is run
        )
        for run in runs
    ]


def _group(study: Study, run: PlannedRun) -> str:
    several = len(study.plan.benchmarks) > 1
    return f"{run.benchmark.name}, {run.variant.name}" if several else run.variant.name


def _groups(study: Study, names: Sequence[str], summaries: Sequence[BenchmarkSummary]) -> list[Group]:
    several = len(study.plan.benchmarks) > 1
    collapsed = {
        (f"{one.benchmark}, " if several else "") + row.variant.name: (row.collapsed.having, row.collapsed.runs)
        for one in summaries
        for row in one.variants
    }
    return [Group(name, collapsed.get(name)) for name in names]


def _facts(study: Study, done: int) -> list[tuple[str, str]]:
    options = {**study.plan.common, **study.plan.common.get("settings", {})}
    common = [(name.replace("_", " "), str(value)[:100]) for name, value in options.items() if name != "settings"]
    return [
        ("runs", f"{done} of {study.plan.size} finished"),
        ("benchmarks", ", ".join(one.name for one in study.plan.benchmarks)[:200]),
        ("variants", str(len(study.plan.variants))),
        ("seeds", ", ".join(map(str, study.plan.seeds))[:100]),
        *common[:12],
    ]


def _main_first(measures: Sequence[Measure], summaries: Sequence[BenchmarkSummary]) -> list[Measure]:
    main = {one.measure for one in summaries}
    return sorted(measures, key=lambda one: one.key not in main)


def _bands(
    study: Study,
    groups: Sequence[str],
    results: Sequence[BenchmarkResults],
    runs: Sequence[tuple[int, RunRecords]],
    measures: Sequence[Measure],
) -> dict[str, dict[str, Any]]:
    """Return bands by bootstrap for the main measure, over epochs and seconds, and by Student's t for the others."""
    bands: dict[str, dict[str, Any]] = {"epochs": bands_of(runs, [one.key for one in measures]), "seconds": {}}
    for result in results:
        prefix = f"{result.benchmark.name}, " if len(study.plan.benchmarks) > 1 else ""
        main = result.usual_measure
        for against in ("epochs", "seconds"):
            curves = study_curves(study.folder, study.plan, result, main, against)
            own = [_mean_band(groups.index(prefix + name), curve) for name, curve in curves.items()]
            others = [
                one for one in bands[against].get(main, []) if one["group"] not in {each["group"] for each in own}
            ]
            bands[against][main] = [*others, *own]
    return bands


def _mean_band(group: int, curve: Sequence[MeanPoint]) -> dict[str, Any]:
    lows = [point.mean if point.band is None else point.band.low for point in curve]
    highs = [point.mean if point.band is None else point.band.high for point in curve]
    return band(group, [point.x for point in curve], [point.mean for point in curve], lows, highs)


def _top(study: Study) -> list[TopArchitecture]:
    try:
        return [one for found in study.top(_MOST_POINTS).values() for one in found]
    except ArchgradError:  # no run is finished, or its data is not here
        return []


def _found(top: Sequence[TopArchitecture], cells: Cells) -> list[FoundCell]:
    numbers = [cells.number(str(one.genotype)) for one in top]
    return [
        FoundCell(f"found by {one.votes} of {one.of} runs", _about(one), number)
        for one, number in zip(top, numbers, strict=True)
        if number is not None
    ]


def _voted(study: Study, cells: Cells) -> list[FoundCell]:
    """Return what the mean of all mixtures decides, in a study of one method with several seeds."""
    try:
        found = vote(study.folder.path)
    except ArchgradError:  # no run is finished, several methods are compared, or the method measures
        return []
    number, searches = cells.number(str(found.genotype)), len(found.runs)
    if number is None or searches < 2:
        return []
    about = f"{found.agreement:.0%} of their own choices are those of the vote"
    return [FoundCell(f"voted by {searches} searches", about, number)]


def _about(one: TopArchitecture) -> str:
    accuracies = [f"{name} {value:.2f} %" for name, value in list(one.accuracies.items())[:3]]
    return ", ".join([*accuracies, str(one.cost)])


def _scatters(top: Sequence[TopArchitecture], device: str) -> list[Scatter]:
    """Return accuracy against size, and against latency where a table has it."""
    known = [one for one in top if one.accuracies]
    if not known:
        return []
    name = next(iter(known[0].accuracies))
    points = [
        {"name": f"found by {one.votes}", "group": 0, "x": one.cost.parameters / 1e6, "y": one.accuracies[name]}
        for one in known
        if name in one.accuracies
    ]
    found = [Scatter("million parameters of the searched size", f"{name}, accuracy (%)", points)]
    latencies = find_latencies() if known[0].genotype.names == ("cell",) else None
    if latencies is not None and device in latencies.devices:
        times = [latencies.milliseconds(one.genotype, device) for one in known if name in one.accuracies]
        timed = [{**point, "x": time} for point, time in zip(points, times, strict=True) if time is not None]
        found.append(Scatter(f"milliseconds on {device} at the benchmark's size", f"{name}, accuracy (%)", timed))
    return found


def _tables(summary: BenchmarkSummary, several: bool) -> list[PageTable]:
    name = f" on {summary.benchmark}" if several else ""
    tables = {f"Results{name}": main_table(summary), f"In detail{name}": detail_table(summary)}
    if summary.verdict.pairs:
        tables[f"All pairs{name}"] = pair_table(summary)
    return [_page_table(title, table) for title, table in tables.items()]


def _page_table(title: str, table: ResultTable) -> PageTable:
    return PageTable(title, table.columns, table.shown(), " ".join(table.notes))
