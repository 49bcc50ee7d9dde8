"""Select among the architectures of several searches from the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archgrad.cli.architecture import find_architecture
from archgrad.cli.console import say
from archgrad.cli.progress import progress_for
from archgrad.cli.search import new_folder, run
from archgrad.cli.train import load_training, show_training, training_plan
from archgrad.config import read_run_config
from archgrad.distributed.processes import from_first, joined
from archgrad.errors import UserError
from archgrad.files import exists
from archgrad.workflows.select import SelectionPlan, run_selection

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["run_select", "search_again", "selection_plan", "show_selection"]


def search_again(runs: Sequence[str], searches: int, console: Console) -> list[str]:
    """Repeat the search of the first run with further seeds, beside it, until there are so many runs."""
    if searches <= len(runs):
        return list(runs)
    first = Path(runs[0])
    if not exists(first / "config.toml"):
        raise UserError(f"--searches repeats a search, but {runs[0][:100]!r} is no run directory; give one.")
    config, found = read_run_config(first), list(runs)
    for seed in range(config.seed + 1, config.seed + 1 + searches - len(runs)):
        place = first.parent / f"{first.name}-again-seed{seed}"
        begun = exists(place / "config.toml")
        if not exists(place / "summary.json"):
            say(f"searching with seed {seed}", console)
            run(read_run_config(place) if begun else replace(config, seed=seed), place, begun, console)
        found.append(str(place))
    return found


def selection_plan(
    runs: Sequence[str],
    preset: str,
    seeds: int,
    test: str | None,
    settings: Sequence[str],
    options: Mapping[str, Any],
) -> SelectionPlan:
    """Return the plan of a selection; the first run brings its space and its data."""
    found = [find_architecture(one, options.get("space"), {}) for one in runs]
    for one, text in zip(found, runs, strict=True):
        if one.space.name != found[0].space.name:
            raise UserError(
                f"{text[:100]} is of the space {one.space.name!r}, but {runs[0][:100]} of {found[0].space.name!r}; "
                f"select among architectures of one space."
            )
    training = training_plan(runs[0], preset, 1, test, None, settings, options)
    genotypes = tuple(dict.fromkeys(one.genotype for one in found))
    return SelectionPlan(replace(training, trains_on_all=False), genotypes, seeds)


def run_select(plan: SelectionPlan, out: Path | None, resume: bool, console: Console) -> dict[str, Any]:
    """Carry out a selection with progress."""
    with joined(plan.training.config.device):
        training, data = load_training(plan.training, console)
        home = out or Path(from_first(lambda: str(new_folder("select", training.config.seed))))
        count = len(plan.genotypes)
        say(f"selecting from {count} architecture{'' if count == 1 else 's'}, run directory {str(home)[:200]}", console)
        shown = progress_for(console, shows_cell=False)
        try:
            found = run_selection(
                replace(plan, training=training), data=data, out=home, resume=resume, interruptible=True,
                callbacks=[shown], tell=lambda text: say(text, console),
            )  # fmt: skip
        finally:
            shown.close()
    return {**found.to_dict(), "run": str(home)}


def show_selection(content: Mapping[str, Any]) -> str:
    """Format a selection: the rounds with their cost, the architecture, and its training."""
    lines = []
    for number, one in enumerate(content["rounds"], 1):
        values = ", ".join(f"{each['heldout']:.2f}" for each in one["candidates"])
        took = f"{one['epochs']} epochs each, {one['seconds']:.0f} seconds"
        lines.append(f"round {number}: held-out {content['metric']} {values} (best first); {took}")
    lines += [f"selected: {content['final']['genotype']}", f"last training: {content['final_seconds']:.0f} seconds"]
    return "\n".join([*lines, show_training({**content["final"], "run": content["run"]})])
