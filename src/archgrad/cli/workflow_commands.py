"""The commands from an architecture to a trained model; importing them stays fast."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from archgrad.cli.options import TRAINING, AsJson, Settings, with_config_options

__all__ = ["resume_training", "train"]


@partial(with_config_options, helps=TRAINING)
def train(
    genotype: Annotated[
        str,
        typer.Argument(metavar="GENOTYPE|DIR", help="A genotype, a file or run directory with one, or a known name."),
    ],
    *,
    space: Annotated[str | None, typer.Option(help="Its space. [the run's, or the first that has it]")] = None,
    stem: Annotated[str | None, typer.Option(help="cifar or imagenet. [the preset's]")] = None,
    preset: Annotated[
        str, typer.Option(metavar="cifar|imagenet|quick", help="Settings of the papers, or a quick answer. [quick]")
    ] = "quick",
    seeds: Annotated[int, typer.Option(min=1, max=1000, help="Number of trainings, each with its own seed. [1]")] = 1,
    test: Annotated[str | None, typer.Option(help="Test images, as --data. [those of the data, if it has any]")] = None,
    start_from: Annotated[
        Path | None, typer.Option(help="Model whose weights are the first ones, as far as they fit. [new weights]")
    ] = None,
    settings: Settings = None,
    out: Annotated[Path | None, typer.Option(help="Run directory. [a new one under runs/]")] = None,
    as_json: AsJson = False,
    **options: Any,
) -> None:
    """Train the network of an architecture from scratch, test it, and save the model."""
    from archgrad.cli.console import print_result, say_loading

    console = say_loading(as_json)
    from archgrad.cli.train import run_plan, show_training, training_plan

    given = {name: value for name, value in options.items() if value is not None}
    sizes = {"space": space, "stem": stem}
    plan = training_plan(genotype, preset, seeds, test, start_from, settings or [], {**sizes, **given})
    print_result(run_plan(plan, out, False, console), show_training, as_json)


def resume_training(folder: Path, workers: int | None, as_json: bool) -> None:
    """Continue a training."""
    from dataclasses import replace

    from archgrad.cli.console import print_result, say_loading

    console = say_loading(as_json)
    from archgrad.cli.train import run_plan, show_training
    from archgrad.workflows.training_folder import read_plan

    plan = read_plan(folder, {})
    if workers is not None:
        plan = replace(plan, config=replace(plan.config, workers=workers))
    print_result(run_plan(plan, folder, True, console), show_training, as_json)
