"""Train an architecture from the command line: find it, show the progress, print what the network can."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from archgrad.callbacks.progress import SearchProgress, reading_progress
from archgrad.cli.console import say
from archgrad.cli.search import run_folder, with_threads
from archgrad.config import read_run_config
from archgrad.config.resolve import resolve
from archgrad.distributed.processes import joined
from archgrad.errors import UserError, shortened
from archgrad.loop.estimate import choose_threads
from archgrad.parts.knobs import parse_setting
from archgrad.system.amounts import counted
from archgrad.tasks.classification import BALANCED, TOP5
from archgrad.workflows.architecture import find_architecture
from archgrad.workflows.presets import PRESETS
from archgrad.workflows.train import run_training, searched_images
from archgrad.workflows.train_result import mean_and_deviation
from archgrad.workflows.training import Training

if TYPE_CHECKING:
    from rich.console import Console

    from archgrad.data import Data

__all__ = ["describe_training", "load_training", "show_training", "train_with_progress"]


def describe_training(genotype: str, settings: Sequence[str], options: Mapping[str, Any]) -> Training:
    """Return the training that the options describe; a run directory brings its space and its data."""
    given = {name: value for name, value in options.items() if value is not None}
    found = find_architecture(genotype, given.pop("space", None), {})
    if found.run is not None and "data" not in given:
        run = read_run_config(found.run)
        if "data" in run.needs:
            raise UserError(f"the data of {found.run} cannot be named in a file; give --data.")
        given = searched_images(run) | given
    return Training.of(found.space, found.genotype, settings=dict(map(parse_setting, settings)), **given)


def load_training(training: Training, console: Console) -> tuple[Training, Data]:
    """Load the training images, and choose the number of threads if it is left open."""
    config = with_threads(training.config)
    parts = resolve(config)
    say(f"loading {str(config.data)[:100]}", console)
    with reading_progress(console, images=True) as progress:
        data = config.load_data(progress)
    if config.threads is None:
        threads = choose_threads(parts, data)
        config = replace(config, threads=threads)
        say(f"{counted(threads, 'thread')} (--threads)", console)
    if config.epochs is None and PRESETS[training.preset].minutes:
        say("timing a few steps, to choose the number of epochs", console)
    return replace(training, config=config), data


def train_with_progress(training: Training, out: Path | None, resume: bool, console: Console) -> dict[str, Any]:
    """Train with progress, and return the content of ``result.json`` and where it is."""
    base = training.network.base.name
    with joined(training.config.device):
        training, data = load_training(training, console)
        shown = SearchProgress(console, shows_cell=False)
        with run_folder(out, f"train-{base}-{training.preset}", training.config.seed) as home, closing(shown):
            result = run_training(
                training, data=data, out=home, resume=resume, interruptible=True, callbacks=[shown], report=True,
                on_seed=lambda training, seed: say(_beginning(training, seed, data, home), console),
            )  # fmt: skip
    return {**result.to_dict(), "run": str(home)}


def _beginning(training: Training, seed: int, data: Data, home: Path) -> str:
    network, images = training.network, f"{len(data):,} images, {data.shape[1]}×{data.shape[2]} pixels"
    size = f"{counted(network.channels, 'channel')}, depth {network.cells}, {training.length}"
    return f"training with seed {shortened(seed)}: {size}, {images}, run directory {str(home)[:200]}"


def _mean(found: Mapping[str, Any], unit: str) -> str:
    spread = "" if found["std"] is None else f" ± {found['std']:.2f} over {len(found['values'])} seeds"
    return f"{found['mean']:.2f}{unit}{spread}"


def show_training(content: Mapping[str, Any]) -> str:
    """Format the result: the metric of each seed, mean and deviation, size and place."""
    unit = f" {content['unit']}".rstrip()
    lines = []
    for part, title in (("heldout", "held-out"), ("test", "test")):
        if part in content:
            lines.append((f"{title} {content['metric']}", _mean(content[part], unit)))
            for name, short in ((TOP5, "top-5"), (BALANCED, "balanced")):
                more = [one[part][name] for one in content["seeds"] if name in one[part] and name != content["metric"]]
                lines += [(f"{title} {short}", _mean(mean_and_deviation(more), unit))] if more else []
    size = f"{content['parameters'] / 1e6:.3f} M parameters, {content['multiply_adds'] / 1e6:.2f} M multiply-adds"
    lines += [("network", size), *(("model", one["model"]) for one in content["seeds"])]
    lines.append(("report", str(Path(content["run"]) / "report.html")))
    lines.append(("next", f"archgrad predict {quote(content['seeds'][0]['model'])} IMAGES…"))
    seconds = sum(one["seconds"] for one in content["seeds"])
    rows = [f"{name:<18} {text}" for name, text in lines]
    return "\n".join([*rows, f"trained in {counted(seconds, 'second', '.0f')}; everything is in {content['run']}"])
