"""Compare methods on the command line: the plan, the live table, and what a study says in the end."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from archgrad.cli.console import say
from archgrad.errors import UserError, escaped
from archgrad.studies import Study, Variant
from archgrad.studies.folder import RunStatus, StudyFolder
from archgrad.studies.plan import StudyPlan, plan_from_toml, seeds_of, split_names
from archgrad.studies.results import TopArchitecture, top_of_run
from archgrad.studies.study import planned
from archgrad.studies.summary import (
    BenchmarkSummary,
    detail_table,
    main_table,
    number_table,
    pair_table,
    rank_table,
)
from archgrad.studies.tables import ResultTable, render, to_rich
from archgrad.system.files import exists

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.table import Table
    from rich.text import Text

__all__ = [
    "StudyProgress",
    "begun_study",
    "plan_of",
    "show_status",
    "show_study",
    "show_top",
    "status_lines",
    "top_content",
]

_MARKS = {"finished": "■", "running": "▶", "interrupted": "▪", "waiting": "·", "failed": "✗"}
_LINE_SECONDS = 30.0
_WIDEST = 10_000


def plan_of(given: Path | None, out: Path | None, request: Mapping[str, Any]) -> tuple[Path, StudyPlan]:
    """Return the folder of a study and its plan: from a file, from options, or what the folder has, extended.

    ``request`` has the options of the command: ``methods``, ``seeds``, ``spaces``, ``data``, and ``common``.
    """
    methods, seeds, places = request["methods"], request["seeds"], [one for one in ("spaces", "data") if request[one]]
    if given is None:
        if not methods:
            raise UserError("name methods to compare, such as --methods darts,gaea, or give a file or folder.")
        if out is None:
            raise UserError("give the folder of the study: -o STUDY.")
        where = request["spaces"] or "nasbench201", request["data"] or "digits"
        return out, planned(methods, seeds or 3, *where, request["common"])
    if not exists(given):
        raise UserError(
            f"there is no study or file {str(given)[:150]}; name methods with --methods and a folder with -o."
        )
    others = [*places, *request["common"]]
    if not given.is_dir():
        others = [*(["methods"] if methods else []), *others]
        if others:
            raise UserError(f"{', '.join(others)} cannot be given beside a file; write them into the file.")
        plan = plan_from_toml(given)
        return out or Path("studies") / given.stem, plan if seeds is None else replace(plan, seeds=seeds_of(seeds))
    if out is not None:
        raise UserError(f"{given} is the folder of a study already; leave -o out.")
    plan = Study.load(given).plan
    if others:
        raise UserError(f"{', '.join(others)} cannot change in a begun study; only --methods and --seeds can be added.")
    known = [one.name for one in plan.variants]
    new = [Variant(name, name) for name in split_names("methods", methods or "") if name not in known]
    more = () if seeds is None else seeds_of(seeds)
    return given, replace(plan, variants=(*plan.variants, *new), seeds=tuple(dict.fromkeys((*plan.seeds, *more))))


def begun_study(given: Path | None, out: Path | None, request: Mapping[str, Any]) -> Study:
    """Return the study of a folder as it is, for a report; nothing can be added to it."""
    if given is None or out is not None or any(request.values()):
        raise UserError(
            "--no-run reports what a study has finished; give its folder, without -o, methods or other options."
        )
    return Study.load(given)


class StudyProgress:
    """Show the states of all runs: a live table on a terminal, a line now and then elsewhere."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._live: Live | None = None
        self._told = (-_LINE_SECONDS, "")
        self._failed: set[str] = set()

    def __enter__(self) -> Callable[[list[RunStatus]], None]:
        if self.console.is_terminal:
            from rich.live import Live

            self._live = Live(console=self.console, refresh_per_second=2, transient=True)
            self._live.start()
        return self._show

    def __exit__(self, *error: object) -> None:
        if self._live is not None:
            self._live.stop()

    def _show(self, status: list[RunStatus]) -> None:
        head, *failed = status_lines(status)
        for line in failed:
            if line not in self._failed:
                say(line, self.console)
        self._failed.update(failed)
        if self._live is not None:
            self._live.update(status_table(status, head))
            return
        now, done = time.monotonic(), head.partition(",")[0]
        if done != self._told[1] or now - self._told[0] > _LINE_SECONDS:
            say(head, self.console)
            self._told = now, done


def status_lines(status: Sequence[RunStatus]) -> list[str]:
    """Say how many runs are in which state, how long the others may take, and which failed."""
    counts = {state: sum(one.state == state for one in status) for state in _MARKS}
    told = [f"{count} {state}" for state, count in counts.items() if count and state != "finished"]
    head = ", ".join([f"{counts['finished']} of {len(status)} runs finished", *told])
    left = _minutes_left(status)
    if left is not None:
        head += f"; about {left // 60} h {left % 60} min left" if left >= 60 else f"; about {left or 1} min left"
    return [head, *(f"failed: {one.run.name}: {one.reason}" for one in status if one.state == "failed")]


def _minutes_left(status: Sequence[RunStatus]) -> int | None:
    """Return the minutes that are left, from the mean time of the finished runs and how many run now."""
    finished = [one for one in status if one.state == "finished"]
    running = [one for one in status if one.state == "running"]
    if not finished or not running:
        return None
    longest = max(one.epochs for one in finished) or 1
    begun = sum(min(one.epochs / longest, 1.0) for one in status if one.state in ("running", "interrupted"))
    open_runs = sum(one.state not in ("finished", "failed") for one in status) - begun
    return round(sum(one.seconds for one in finished) / len(finished) * open_runs / len(running) / 60)


def status_table(status: Sequence[RunStatus], head: str) -> Table:
    """Return a table of variants, with a mark for each run."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(head), title_justify="left", box=None, padding=(0, 2, 0, 0))
    for name in ("benchmark", "variant", "runs", "epochs of the current runs"):
        table.add_column(name)
    for place, variant in dict.fromkeys((one.run.benchmark.name, one.run.variant.name) for one in status):
        own = [one for one in status if (one.run.benchmark.name, one.run.variant.name) == (place, variant)]
        running = ", ".join(f"seed {one.run.seed}: {one.epochs}" for one in own if one.state == "running")
        table.add_row(Text(place), Text(variant), Text("".join(_MARKS[one.state] for one in own)), Text(running))
    return table


def show_status(study: Study, console: Console) -> None:
    """Print how far a study is, and who works on it."""
    status, beat = study.status, study.folder.heartbeat()
    head, *failed = status_lines(status)
    _print_wide(status_table(status, head), console)
    for line in failed:
        say(line, console)
    if beat.alive:
        say(f"process {beat.pid} on {beat.host} works on it (engine {beat.engine})", console)
    elif any(one.state not in ("finished", "failed") for one in status):
        say(f"nobody works on it; `archgrad compare {quote(str(study.folder.path))}` continues it", console)
    if any(one.state == "finished" for one in status):
        say(f"`archgrad compare {quote(str(study.folder.path))} --no-run` reports the finished runs", console)


def show_study(study: Study, measure: str | None, table: str | None, console: Console) -> None:
    """Print the tables of a study, and its verdicts; only tables or numbers in another format."""
    from rich.text import Text

    summaries = study.summaries(measure)
    if table is not None:
        text = _formatted(study, summaries, table)
        console.print(text, end="", markup=False, highlight=False, soft_wrap=True)
        return
    for summary in summaries:
        say(f"\n{summary.benchmark}, by {summary.measure}", console)
        for make in (main_table, detail_table, *([pair_table] if summary.verdict.pairs else [])):
            _print_table(make(summary), console)
        _print_wide(Text(f"{summary.verdict}"), console)
    ranks = rank_table(summaries)
    if ranks is not None:
        say("\nall benchmarks", console)
        _print_table(ranks, console)
    place = quote(str(study.folder.path))
    say(f"\ncurves: `archgrad plot {place}`; what most runs found: `archgrad top {place}`", console)


def _print_table(table: ResultTable, console: Console) -> None:
    """Print a table and its notes."""
    from rich.text import Text

    _print_wide(to_rich(table), console)
    for note in table.notes:
        _print_wide(Text(escaped(note)), console)
    console.print()


def _print_wide(content: Table | Text, console: Console) -> None:
    """Print a table or a sentence; it wraps between words, and not at all where the output is no terminal."""
    if not console.is_terminal:
        console.width = _WIDEST
    console.print(content, soft_wrap=False)


def _formatted(study: Study, summaries: Sequence[BenchmarkSummary], kind: str) -> str:
    """Return tables to read as Markdown or LaTeX, all numbers as CSV, or everything as one JSON document."""
    ranks, numbers = rank_table(summaries), number_table(summaries)
    if kind == "csv":
        return render(numbers, kind)
    if kind != "json":
        tables = [table for one in summaries for table in (_titled(one), detail_table(one), pair_table(one))]
        return "\n".join(render(one, kind) for one in (*tables, *([] if ranks is None else [ranks])))
    pairs = [{"benchmark": one.benchmark, **asdict(pair)} for one in summaries for pair in one.verdict.pairs]
    for pair in pairs:  # JSON has no infinity
        pair["seeds_needed"] = None if pair["seeds_needed"] == math.inf else pair["seeds_needed"]
    content = {
        "results": json.loads(render(numbers, "json"))["rows"],
        "pairs": pairs,
        "verdicts": {one.benchmark: str(one.verdict) for one in summaries},
        "ranks": None if ranks is None else json.loads(render(ranks, "json"))["rows"],
        "notes": numbers.notes,
    }
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _titled(summary: BenchmarkSummary) -> ResultTable:
    """Return the main table with what it is about, and the verdict, among its notes."""
    table = main_table(summary)
    about = f"{summary.benchmark}, by {summary.measure}. {summary.verdict}"
    return replace(table, notes=(about, *table.notes))


def top_content(path: Path, k: int) -> dict[str, list[TopArchitecture]]:
    """Return the k best architectures of a run, or of every benchmark of a study, by name."""
    if StudyFolder(path).exists():
        return Study.load(path).top(k)
    return {str(path): top_of_run(path, k)}


def show_top(found: Mapping[str, Sequence[TopArchitecture]]) -> str:
    """Write numbered architectures, with two lines for each."""
    lines = []
    for place, best in found.items():
        lines += [place, *(f"{number:>2}. {one}" for number, one in enumerate(best, 1))]
    return "\n".join(lines)
