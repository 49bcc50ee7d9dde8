"""Train an architecture from the command line: find it, show the progress, print what the network can."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archgrad.callbacks.progress import progress_for, reading_progress
from archgrad.cli.architecture import find_architecture
from archgrad.cli.console import say
from archgrad.cli.search import new_folder, with_threads
from archgrad.config import read_run_config
from archgrad.config.resolve import resolve
from archgrad.distributed.processes import from_first, joined, processes
from archgrad.errors import UserError, look_up
from archgrad.loop.estimate import choose_threads
from archgrad.parts.knobs import parse_setting
from archgrad.system.files import exists
from archgrad.tasks.classification import TOP5
from archgrad.workflows.presets import PRESETS
from archgrad.workflows.train import run_training
from archgrad.workflows.train_result import mean_and_deviation
from archgrad.workflows.training_config import training_config
from archgrad.workflows.training_plan import TrainingPlan, seeds_of

if TYPE_CHECKING:
    from rich.console import Console

    from archgrad.data import Data

__all__ = ["load_training", "run_plan", "show_training", "training_plan"]


def training_plan(
    genotype: str,
    preset: str,
    seeds: int,
    test: str | None,
    start_from: Path | None,
    settings: Sequence[str],
    options: Mapping[str, Any],
) -> TrainingPlan:
    """Return the plan that the options describe; a run directory brings its space and its data."""
    given = {name: value for name, value in options.items() if value is not None}
    found = find_architecture(genotype, given.pop("space", None), {})
    if found.run is not None and "data" not in given:
        run = read_run_config(found.run)
        if "data" in run.needs:
            raise UserError(f"the data of {found.run} cannot be named in a file; give --data.")
        names = ("data", "data_dir", "image_size", "fit", "task")
        given = {name: one for name in names if (one := getattr(run, name)) is not None} | given
    start = None if start_from is None else str(start_from.resolve())
    sizes = look_up("preset", preset, PRESETS).sizes_of(found.space)
    config = training_config(
        found.space, found.genotype, given.pop("data", "digits"), preset, start,
        settings=dict(map(parse_setting, settings)), **{**sizes, **given},
    )  # fmt: skip
    return TrainingPlan(config, preset, seeds_of(seeds, config.seed), test, "held_out" not in given)


def load_training(plan: TrainingPlan, console: Console) -> tuple[TrainingPlan, Data]:
    """Load the training images, and choose the number of threads if it is left open."""
    config = with_threads(plan.config)
    parts = resolve(config)
    say(f"loading {str(config.data)[:100]}", console)
    with reading_progress(console, images=True) as progress:
        data = config.load_data(progress)
    if config.threads is None:
        config = replace(config, threads=choose_threads(parts, data))
        say(f"{config.threads} thread{'' if config.threads == 1 else 's'} (--threads)", console)
    if config.epochs is None and PRESETS[plan.preset].minutes:
        say("timing a few steps, to choose the number of epochs", console)
    return replace(plan, config=config), data


def run_plan(plan: TrainingPlan, out: Path | None, resume: bool, console: Console) -> dict[str, Any]:
    """Carry out a plan with progress, and return the content of ``result.json`` and where it is."""
    with joined(plan.config.device):
        plan, data = load_training(plan, console)
        reserved, seed = out is None, plan.config.seed
        home = out or Path(from_first(lambda: str(new_folder(f"train-{_title(plan)}", seed))))
        shown = progress_for(console, shows_cell=False)
        try:
            result = run_training(
                plan, data=data, out=home, resume=resume, interruptible=True,
                callbacks=[shown], on_seed=lambda plan, seed: say(_begin(plan, seed, data, home), console),
            )  # fmt: skip
        finally:
            shown.close()
            if reserved and processes().rank == 0 and exists(home) and not any(home.iterdir()):
                home.rmdir()
    return {**result.to_dict(), "run": str(home)}


def _title(plan: TrainingPlan) -> str:
    space: Any = plan.config.space
    return f"{space.of if isinstance(space.of, str) else space.of.name}-{plan.preset}"


def _begin(plan: TrainingPlan, seed: int, data: Data, home: Path) -> str:
    config = plan.config
    parts = resolve(config)
    space, epochs = parts.space, parts.training.epochs
    images = f"{len(data):,} images, {data.shape[1]}×{data.shape[2]} pixels"
    size = f"{space.channels} channels, depth {space.cells}"  # type: ignore[attr-defined]
    return f"training with seed {seed}: {size}, {epochs} epochs, {images}, run directory {str(home)[:200]}"


def _mean(found: Mapping[str, Any], unit: str) -> str:
    spread = "" if found["std"] is None else f" ± {found['std']:.2f} over {len(found['values'])} seeds"
    return f"{found['mean']:.2f}{unit}{spread}"


def show_training(content: Mapping[str, Any]) -> str:
    """Format the result: the metric of each seed, mean and deviation, size and place."""
    unit = " %" if content["metric"] == "accuracy" else ""
    names = {"heldout": "held-out", "test": "test"}
    lines = []
    for part, title in names.items():
        if part in content:
            lines.append((f"{title} {content['metric']}", _mean(content[part], unit)))
            top5 = [one[part][TOP5] for one in content["seeds"] if TOP5 in one[part]]
            lines += [(f"{title} top-5", _mean(mean_and_deviation(top5), unit))] if top5 else []
    lines.append(("network", f"{content['parameters'] / 1e6:.3f} M parameters, "
                             f"{content['multiply_adds'] / 1e6:.2f} M multiply-adds"))  # fmt: skip
    lines += [("model", one["model"]) for one in content["seeds"]]
    lines.append(("next", f"archgrad predict {content['seeds'][0]['model']} IMAGES…"))
    seconds = sum(one["seconds"] for one in content["seeds"])
    rows = [f"{name:<18} {text}" for name, text in lines]
    return "\n".join([*rows, f"trained in {seconds:.0f} seconds; everything is in {content['run']}"])
