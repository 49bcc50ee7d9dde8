"""Compare methods on the command line: the plan, the live table, and what a study says in the end."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archgrad.cli.console import say
from archgrad.errors import UserError, escaped
from archgrad.studies import Study, Variant
from archgrad.studies.folder import RunStatus, StudyFolder
from archgrad.studies.plan import StudyPlan, plan_from_toml, seeds_of
from archgrad.studies.study import planned, run_study
from archgrad.studies.summary import BenchmarkSummary
from archgrad.studies.summary_tables import detail_table, main_table, number_table, pair_table, rank_table
from archgrad.studies.tables import ResultTable, render, to_rich
from archgrad.studies.top import TopArchitecture, top_of_run
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
    "run_compare",
    "show_status",
    "show_study",
    "show_top",
    "status_lines",
    "top_content",
]

_STATES = ("finished", "running", "interrupted", "waiting", "failed")
_LINE_SECONDS = 30.0
_WIDEST = 10_000


def plan_of(given: Path | None, out: Path | None, request: Mapping[str, Any]) -> tuple[Path, StudyPlan | None]:
    """Return the folder of a study and its plan: from a file, from options, or what the folder has, extended."""
    methods, seeds = request.get("methods"), request.get("seeds")
    if given is None and not methods:
        raise UserError("name methods to compare, such as --methods darts,gaea, or give a file or folder of a study.")
    if given is not None and exists(given) and given.is_dir():
        if out is not None:
            raise UserError(f"{given} is the folder of a study already; leave -o out.")
        return given, _extension(Study.load(given).plan, request)
    folder = Path("studies") / given.stem if out is None and given is not None else out
    if folder is None:
        raise UserError("give the folder of the study: -o STUDY.")
    if given is not None:
        if not exists(given):
            raise UserError(f"there is no study or file {given}; name methods with --methods and a folder with -o.")
        return folder, _changed(plan_from_toml(given), request)
    names = [name.strip() for name in (methods or "").split(",") if name.strip()]
    places = request.get("spaces") or "nasbench201", request.get("data") or "digits"
    return folder, planned({name: {} for name in names}, seeds or 3, *places, request["common"])


def begun_study(given: Path | None, out: Path | None, request: Mapping[str, Any]) -> Study:
    """Return the study of a folder as it is, for a report; nothing can be added to it."""
    if given is None or out is not None or any(request.values()):
        raise UserError(
            "--no-run reports what a study has finished; give its folder, without -o, methods or other options."
        )
    return Study.load(given)


def _changed(plan: StudyPlan, request: Mapping[str, Any]) -> StudyPlan:
    """Return the plan of a file with the seeds of the command line; other options belong into the file."""
    others = [name for name in ("methods", "spaces", "data") if request.get(name)] + list(request["common"])
    if others:
        raise UserError(f"{', '.join(others)} cannot be given beside a file; write them into the file.")
    return plan if request.get("seeds") is None else replace(plan, seeds=seeds_of(request["seeds"]))


def _extension(plan: StudyPlan, request: Mapping[str, Any]) -> StudyPlan | None:
    """Return what the options add to a begun study: variants and seeds."""
    others = [name for name in ("spaces", "data") if request.get(name)] + list(request["common"])
    if others:
        raise UserError(f"{', '.join(others)} cannot change in a begun study; only --methods and --seeds can be added.")
    names = [name.strip() for name in (request.get("methods") or "").split(",") if name.strip()]
    known = {one.name for one in plan.variants}
    new = tuple(Variant(name, name) for name in names if name not in known)
    seeds = plan.seeds if request.get("seeds") is None else seeds_of(request["seeds"])
    return replace(plan, variants=(*plan.variants, *new), seeds=tuple(dict.fromkeys((*plan.seeds, *seeds))))


def run_compare(
    folder: Path, plan: StudyPlan | None, engine: str, options: Mapping[str, Any], console: Console
) -> Study:
    """Run a study to its end, and show how far it is."""
    with StudyProgress(console) as watch:
        return run_study(folder, plan, engine, options, watch, lambda text: say(text, console))


class StudyProgress:
    """Show the states of all runs: a live table on a terminal, a line now and then elsewhere."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._live: Live | None = None
        self._told, self._began = (-_LINE_SECONDS, ""), time.monotonic()
        self._before: float | None = None
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
        lines = status_lines(status, self._left(status))
        for line in lines[1:]:
            if line not in self._failed:
                say(line, self.console)
        self._failed.update(lines[1:])
        if self._live is not None:
            self._live.update(status_table(status, lines[0]))
            return
        now, done = time.monotonic(), lines[0].partition(",")[0]
        if done != self._told[1] or now - self._told[0] > _LINE_SECONDS:
            say(lines[0], self.console)
            self._told = now, done

    def _left(self, status: Sequence[RunStatus]) -> float | None:
        """Return the seconds that are left, from the epochs that were finished since this process began."""
        done = _work_done(status)
        if self._before is None:
            self._before = done
        taken = done - self._before
        if taken <= 0:
            return None
        return (time.monotonic() - self._began) / taken * (len(status) - done)


def _left_by_seconds(status: Sequence[RunStatus]) -> float | None:
    """Return the seconds that are left, from the time of the finished runs and how many run now."""
    taken = [one.seconds for one in status if one.state == "finished"]
    running = sum(one.state == "running" for one in status)
    if not taken or not running:
        return None
    return sum(taken) / len(taken) * (len(status) - _work_done(status)) / running


def _work_done(status: Sequence[RunStatus]) -> float:
    """Return the work done, in runs: finished and failed ones count 1, others by their epochs."""
    longest = max((one.epochs for one in status if one.state == "finished"), default=0)
    return sum(
        1.0 if one.state in ("finished", "failed") else min(one.epochs / longest, 1.0) if longest else 0.0
        for one in status
    )


def status_lines(status: Sequence[RunStatus], left: float | None = None) -> list[str]:
    """Say how many runs are in which state, and name those that failed."""
    counts = {state: sum(one.state == state for one in status) for state in _STATES}
    told = [f"{count} {state}" for state, count in counts.items() if count and state != "finished"]
    head = ", ".join([f"{counts['finished']} of {len(status)} runs finished", *told])
    if left is not None and counts["finished"] < len(status):
        head += f"; about {_time(left)} left"
    return [head, *(f"failed: {one.run.name}: {one.reason}" for one in status if one.state == "failed")]


def _time(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min" if minutes else "1 min"


def status_table(status: Sequence[RunStatus], head: str) -> Table:
    """Return a table of variants, with a mark for each run."""
    from rich.table import Table
    from rich.text import Text

    marks = {"finished": "■", "running": "▶", "interrupted": "▪", "waiting": "·", "failed": "✗"}
    table = Table(title=Text(head), title_justify="left", box=None, padding=(0, 2, 0, 0))
    for name in ("benchmark", "variant", "runs", "epochs of the current runs"):
        table.add_column(name)
    for place, variant in dict.fromkeys((one.run.benchmark.name, one.run.variant.name) for one in status):
        own = [one for one in status if (one.run.benchmark.name, one.run.variant.name) == (place, variant)]
        running = ", ".join(f"seed {one.run.seed}: {one.epochs}" for one in own if one.state == "running")
        table.add_row(Text(place), Text(variant), Text("".join(marks[one.state] for one in own)), Text(running))
    return table


def show_status(study: Study, console: Console) -> None:
    """Print how far a study is, and who works on it."""
    status, beat = study.status, study.folder.heartbeat()
    lines = status_lines(status, _left_by_seconds(status))
    _print_wide(status_table(status, lines[0]), console)
    for line in lines[1:]:
        say(line, console)
    if beat.alive:
        say(f"process {beat.pid} on {beat.host} works on it (engine {beat.engine})", console)
    elif any(one.state not in ("finished", "failed") for one in status):
        say(f"nobody works on it; `archgrad compare {study.folder.path}` continues it", console)
    if any(one.state == "finished" for one in status):
        say(f"`archgrad compare {study.folder.path} --no-run` reports the finished runs", console)


def show_study(study: Study, measure: str | None, table: str | None, console: Console) -> None:
    """Print the tables of a study, its verdicts and the checklist; only tables or numbers in another format."""
    from rich.table import Table
    from rich.text import Text

    summaries = study.summaries(measure)
    if table is not None:
        text = _formatted(study, summaries, table)
        console.print(text, end="", markup=False, highlight=False, soft_wrap=True)
        return
    for summary in summaries:
        say(f"\n{summary.benchmark}, by {summary.measure}", console)
        for make in (main_table, detail_table, pair_table):
            if make is not pair_table or summary.pairs:
                _print_table(make(summary), console)
        _print_wide(Text(f"{summary.verdict}"), console)
    ranks = rank_table(summaries)
    if ranks is not None:
        say("\nall benchmarks", console)
        _print_table(ranks, console)
    say("\nchecklist of good practice (Lindauer & Hutter, 2020)", console)
    checklist = Table.grid(padding=(0, 2, 0, 0))
    for one in study.checklist():
        checklist.add_row(one.answer, one.item.question, Text(escaped(one.evidence)))
    _print_wide(checklist, console)
    place = study.folder.path
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
    ranks = rank_table(summaries)
    if kind in ("md", "latex"):
        tables = [table for one in summaries for table in (_titled(one), detail_table(one), pair_table(one))]
        return "\n".join(render(one, kind) for one in (*tables, *([] if ranks is None else [ranks])))
    if kind == "csv":
        return render(number_table(summaries), kind)
    content = {
        "results": _rows(number_table(summaries)),
        "pairs": [{"benchmark": one.benchmark, **asdict(pair)} for one in summaries for pair in one.pairs],
        "verdicts": {one.benchmark: str(one.verdict) for one in summaries},
        "ranks": None if ranks is None else _rows(ranks),
        "notes": list(number_table(summaries).notes),
        "checklist": [
            {"question": one.item.question, "answer": one.answer, "evidence": one.evidence} for one in study.checklist()
        ],
    }
    return json.dumps(finite(content), indent=2, ensure_ascii=False) + "\n"


def _titled(summary: BenchmarkSummary) -> ResultTable:
    """Return the main table with what it is about, and the verdict, among its notes."""
    table = main_table(summary)
    about = f"{summary.benchmark}, by {summary.measure}. {summary.verdict}"
    return replace(table, notes=(about, *table.notes))


def _rows(table: ResultTable) -> list[dict[str, Any]]:
    return [dict(zip((column.name for column in table.columns), row, strict=True)) for row in table.rows]


def finite(content: Any) -> Any:
    """Return plain values without infinity, which JSON lacks: more seeds than any study has are None."""
    if isinstance(content, dict):
        return {name: finite(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


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
