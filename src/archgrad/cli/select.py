"""Select among the architectures of several searches from the command line."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archgrad.callbacks.progress import SearchProgress
from archgrad.cli.console import say
from archgrad.cli.search import run, run_folder
from archgrad.cli.train import describe_training, load_training, show_training
from archgrad.config import SearchConfig, read_run_config
from archgrad.distributed.processes import joined
from archgrad.errors import UserError, look_up
from archgrad.system.amounts import counted
from archgrad.system.files import exists, read_text
from archgrad.workflows.architecture import find_architecture
from archgrad.workflows.select import PROTOCOLS, SelectionPlan, run_selection
from archgrad.workflows.test_images import find_test_images

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["search_again", "searches_wanted", "select_with_progress", "selection_plan", "show_selection"]

_LONGEST_SUMMARY = 1 << 24


def searches_wanted(runs: Sequence[str], searches: int | None, protocol: str) -> int:
    """Return how many searches there must be: as given, or as published if there is a search to repeat."""
    published = look_up("protocol", protocol, PROTOCOLS).searches
    first = _run_directory(runs[0])
    if searches is None:
        return published if published and first is not None else 1
    if searches > len(runs) and first is None:
        raise UserError(f"--searches repeats a search, but {runs[0][:100]!r} is no run directory; give one.")
    return searches


def _run_directory(run: str) -> Path | None:
    """Return the directory of a search, None if this is none."""
    place = Path(run) if Path(run).name.strip(".") else Path(run).resolve()
    return place if exists(place / "config.toml") else None


def search_again(runs: Sequence[str], searches: int, plan: SelectionPlan, console: Console) -> list[str]:
    """Repeat the search of the first run with further seeds, beside it, until there are so many runs.

    ``plan`` is the selection as it would be without: its mistakes are told before anything is searched.
    """
    first = _run_directory(runs[0])
    if searches <= len(runs) or first is None:
        return list(runs)
    training = plan.training
    needed = plan.rules.searches is not None
    plan.check(find_test_images(training.config, training.config.load_data(), training.test) if needed else None)
    config, found = read_run_config(first), list(runs)
    for seed in range(config.seed + 1, config.seed + 1 + searches - len(runs)):
        place = first.parent / f"{first.name}-again-seed{seed}"
        _search_once(replace(config, seed=seed), place, console)
        found.append(str(place))
    return found


def _search_once(config: SearchConfig, place: Path, console: Console) -> None:
    """Search in a folder, or continue the same search there, unless it is finished."""
    begun = exists(place / "config.toml")
    if begun and replace(read_run_config(place), threads=config.threads, workers=config.workers) != config:
        raise UserError(f"{str(place)[:200]} holds another search than --searches would repeat; rename or remove it.")
    if not exists(place / "summary.json"):
        say(f"searching with seed {config.seed}", console)
        run(read_run_config(place) if begun else config, place, begun, console)


def selection_plan(
    runs: Sequence[str], protocol: str, seeds: int | None, settings: Sequence[str], options: Mapping[str, Any]
) -> SelectionPlan:
    """Return the plan of a selection; the first run brings its space and its data."""
    found = [find_architecture(one, options.get("space"), {}) for one in runs]
    for one, text in zip(found, runs, strict=True):
        if one.space.name != found[0].space.name:
            raise UserError(
                f"{text[:100]} is of the space {one.space.name!r}, but {runs[0][:100]} of {found[0].space.name!r}; "
                f"select among architectures of one space."
            )
    training = describe_training(runs[0], settings, options)
    genotypes = tuple(dict.fromkeys(one.genotype for one in found))
    seconds = {str(one.run): _seconds(one.run) for one in found if one.run is not None}
    seeds = seeds or PROTOCOLS[protocol].seeds
    return SelectionPlan(replace(training, trains_on_all=False), genotypes, seeds, seconds, protocol, len(runs))


def _seconds(run: Path) -> float:
    """Return how long a search took."""
    path = run / "summary.json"
    try:
        return float(json.loads(read_text(path, "summary of a search", _LONGEST_SUMMARY))["seconds"])
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise UserError(f"{path} does not say how long the search took; is it finished? ({error})") from error


def select_with_progress(plan: SelectionPlan, out: Path | None, resume: bool, console: Console) -> dict[str, Any]:
    """Carry out a selection with progress."""
    with joined(plan.training.config.device):
        training, data = load_training(plan.training, console)
        count, shown = len(plan.genotypes), SearchProgress(console, shows_cell=False)
        with run_folder(out, "select", training.config.seed) as home, closing(shown):
            say(f"selecting from {counted(count, 'architecture')}, run directory {str(home)[:200]}", console)
            found = run_selection(
                replace(plan, training=training), data=data, out=home, resume=resume, interruptible=True,
                callbacks=[shown], tell=lambda text: say(text, console),
            )  # fmt: skip
    return {**found.to_dict(), "run": str(home)}


def _protocol(content: Mapping[str, Any]) -> list[str]:
    """Say which published protocol this is, and what differs."""
    rules = PROTOCOLS[content["protocol"]]
    if rules.searches is None:
        return []
    departures = content["departures"]
    differs = [f"not the published protocol ({', '.join(departures)})"] if departures else []
    return [f"protocol {content['protocol']}: {rules.about}", *differs, rules.note]


def _spread(tested: Sequence[Mapping[str, Any]], metric: str) -> str:
    """Return the mean and the deviation of each architecture on test images, and which are lowest and highest."""
    each = [_mean(one) for one in tested]
    order = sorted(range(len(tested)), key=lambda number: tested[number]["mean"])
    return f"test {metric} {', '.join(each)} (same order); lowest {each[order[0]]}, highest {each[order[-1]]}"


def _mean(found: Mapping[str, Any]) -> str:
    return f"{found['mean']:.2f}" + ("" if found["std"] is None else f" ± {found['std']:.2f}")


def show_selection(content: Mapping[str, Any]) -> str:
    """Format a selection: the searches and the rounds with their cost, the architecture, and its training."""
    lines, searches = _protocol(content), content["search_seconds"]
    if searches:
        each = ", ".join(f"{one:.0f}" for one in searches.values())
        lines.append(f"searches: {sum(searches.values()):.0f} seconds" + (f" ({each})" if len(searches) > 1 else ""))
    for number, one in enumerate(content["rounds"], 1):
        values = ", ".join(f"{each['heldout']:.2f}" for each in one["candidates"])
        took = f"{counted(one['epochs'], 'epoch')} each, {counted(one['seconds'], 'second', '.0f')}"
        lines.append(f"round {number}: held-out {content['metric']} {values} (best first); {took}")
        tested = [each["test"] for each in one["candidates"] if "test" in each]
        lines += [_spread(tested, content["metric"])] if tested else []
    lines += [f"selected: {content['final']['genotype']}"]
    lines += [f"last training: {content['final_seconds']:.0f} seconds"] if PROTOCOLS[content["protocol"]].fresh else []
    return "\n".join([*lines, show_training({**content["final"], "run": content["run"]})])
