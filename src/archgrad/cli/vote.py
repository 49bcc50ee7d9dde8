"""Searches that vote on the command line: several at once, and the one architecture that they decide for."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from archgrad.cli.compare import StudyProgress
from archgrad.cli.console import say
from archgrad.cli.final_report import places_in_tables, show_cell
from archgrad.cli.search import run_folder, title
from archgrad.config import SearchConfig
from archgrad.diagnostics.records import number_in
from archgrad.distributed.environment import launched
from archgrad.errors import UserError
from archgrad.loop.estimate import usable_cores
from archgrad.loop.folder import read_records
from archgrad.loop.prepare import DEFAULT_MINUTES
from archgrad.report import draw
from archgrad.spaces import Genotype
from archgrad.studies import Study
from archgrad.studies.folder import StudyFolder
from archgrad.studies.plan import OWN
from archgrad.studies.study import check_variants, planned, run_study
from archgrad.studies.vote import vote, write_vote
from archgrad.system.files import exists, list_folder
from archgrad.tables import tables_for
from archgrad.tasks import MetricInfo

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["is_vote", "search_with_voters", "show_vote", "vote_content", "vote_into"]

_VOTER = "voter"
"""The one variant of a study whose runs vote."""


def is_vote(study: Study) -> bool:
    """Tell whether a study is that of searches that vote."""
    return [one.name for one in study.plan.variants] == [_VOTER]


def search_with_voters(options: Mapping[str, Any], voters: int, out: Path | None, console: Console) -> dict[str, Any]:
    """Search with consecutive seeds, as many at once as there are cores, and let the searches vote.

    The folder is that of a study, so it goes on after a kill; in the end it holds the architecture, too.
    """
    config = SearchConfig(**options)
    if launched() is not None:
        raise UserError(f"voters is {voters}, but this search has several processes already; leave one of them out.")
    at_once = min(max(usable_cores() // (config.threads or 1), 1), voters)
    rounds = math.ceil(voters / at_once)
    own = {name: value for name, value in options.items() if name not in OWN}
    if not config.is_sized:
        own["time_limit"] = (config.time_limit or DEFAULT_MINUTES) / rounds
    seeds = range(config.seed, config.seed + voters)
    plan = planned({_VOTER: {"method": config.method}}, list(seeds), [str(config.space)], [str(config.data)], own)
    with run_folder(out, title(config), config.seed) as home:
        say(
            f"{voters} searches vote, {at_once} at once: seeds {seeds[0]} to {seeds[-1]}, run directory {home}", console
        )
        with StudyProgress(console) as watch:
            study = run_study(home, plan, watch=watch, tell=lambda text: say(text, console))
    check_variants(study)
    return vote_content([study.folder.path], study.folder.path)


def vote_into(runs: Sequence[Path], out: Path | None) -> dict[str, Any]:
    """Let searches vote, and write the architecture into a new folder, if one is given."""
    if out is not None and exists(out) and (not out.is_dir() or any(list_folder(out))):
        raise UserError(f"-o is {str(out)[:150]!r}, which is there already; give a new folder.")
    return vote_content(runs, out)


def vote_content(runs: Sequence[Path], home: Path | None) -> dict[str, Any]:
    """Let searches vote, write the architecture into ``home``, and return what is known of it, ready for JSON."""
    found = vote(*runs)
    if home is not None:
        write_vote(found, home)
        draw(found.genotype, home / "cell.svg")
    tables = tables_for(found.space.name)
    accuracies = {name: value for table in tables for name, value in table.accuracies(found.genotype).items()}
    return {
        "genotype": str(found.genotype),
        "agreement": found.agreement,
        "votes": found.votes,
        "searches": {str(run): _search(run, own) for run, own in zip(found.runs, found.own, strict=True)},
        "accuracies": accuracies,
        "table": places_in_tables(found.space, accuracies),
        "run": None if home is None else str(home),
    }


def _search(run: Path, own: Genotype) -> dict[str, Any]:
    """Return what one search would choose by itself, its diagnosis, and how well its mixture does."""
    last = read_records(run)[-1]
    metric = MetricInfo.of_record(last)
    return {
        "genotype": str(own),
        "diagnosis": last.get("diagnosis"),
        "metric": metric.name,
        "heldout": number_in(last, f"heldout_{metric.name}"),
    }


def show_vote(content: Mapping[str, Any]) -> str:
    """Format a vote: how far the searches agree, the cell, what is known of it, and what to do next."""
    searches, run = list(content["searches"].values()), content["run"]
    near = [decision for decision, count in content["votes"].items() if 2 * count <= len(searches)]
    lines = [f"{len(searches)} searches voted; {content['agreement']:.0%} of their own choices are those of the vote"]
    if near:
        lines.append(f"no majority chose {', '.join(near)}: other seeds may decide otherwise there")
    lines += ["", show_cell(content["genotype"]), f"searches   {_told(searches)}"]
    lines += [f"table      {text}" for text in content["table"]]
    return "\n".join([*lines, *([] if run is None else ["", "next", *_next(run)])])


def _next(run: str) -> list[str]:
    """Return the next commands, each with a comment; a folder that has no searches has no page."""
    steps = {f"archgrad train {quote(run)}": "train its network, and test it"}
    if StudyFolder(Path(run)).exists():
        steps[f"archgrad report {quote(run)}"] = "one page: the searches, and what they voted for"
    width = max(map(len, steps))
    return [f"  {command:<{width}}  # {why}" for command, why in steps.items()]


def _told(searches: Sequence[Mapping[str, Any]]) -> str:
    """Say how many searches have which diagnosis, and between what their held-out metrics lie."""
    counts = Counter(one["diagnosis"] or "without diagnosis" for one in searches)
    told = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    heldout = sorted(one["heldout"] for one in searches if one["heldout"] is not None)
    return told + (f"; held-out {searches[0]['metric']} {heldout[0]:.2f} to {heldout[-1]:.2f}" if heldout else "")
