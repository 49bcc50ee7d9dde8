"""The commands from an architecture to a trained model; importing them stays fast."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from archgrad.cli.options import FIT, TRAINING, AsJson, Settings, with_config_options

__all__ = ["fit", "resume_workflow", "select", "train"]

_Preset = Annotated[
    str, typer.Option(help="Settings of a paper (`archgrad list presets`), such as cifar-darts, or quick. [quick]")
]
_Stem = Annotated[str | None, typer.Option(help="cifar or imagenet. [the preset's]")]
_Test = Annotated[str | None, typer.Option(help="Test images, as --data. [those of the data, if it has any]")]
_Out = Annotated[Path | None, typer.Option(help="Run directory. [a new one under runs/]")]


@partial(with_config_options, helps=TRAINING)
def train(
    genotype: Annotated[
        str,
        typer.Argument(metavar="GENOTYPE|DIR", help="A genotype, a file or run directory with one, or a known name."),
    ],
    *,
    space: Annotated[str | None, typer.Option(help="Its space. [the run's, or the first that has it]")] = None,
    stem: _Stem = None,
    preset: _Preset = "quick",
    seeds: Annotated[int, typer.Option(min=1, max=1000, help="Number of trainings, each with its own seed. [1]")] = 1,
    test: _Test = None,
    start_from: Annotated[
        Path | None, typer.Option(help="Model whose weights are the first ones, as far as they fit. [new weights]")
    ] = None,
    settings: Settings = None,
    out: _Out = None,
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


@partial(with_config_options, helps=TRAINING)
def select(
    runs: Annotated[
        list[str],
        typer.Argument(metavar="DIR|GENOTYPE...", help="Run directories of searches, or genotypes, of one space."),
    ],
    *,
    searches: Annotated[
        int | None,
        typer.Option(min=1, max=1000, help="Repeat the first search with new seeds up to so many runs. [protocol's]"),
    ] = None,
    protocol: Annotated[
        str, typer.Option(metavar="halving|gaea|amended", help="How they train; as a paper does, or halving. [halving]")
    ] = "halving",
    space: Annotated[str | None, typer.Option(help="Their space. [the runs', or the first that has them]")] = None,
    stem: _Stem = None,
    preset: _Preset = "quick",
    seeds: Annotated[
        int | None, typer.Option(min=1, max=1000, help="Seeds of the last training. [3, or 10 with gaea]")
    ] = None,
    test: _Test = None,
    settings: Settings = None,
    out: _Out = None,
    as_json: AsJson = False,
    **options: Any,
) -> None:
    """Train the architectures of several searches briefly, drop the poor ones, and train the best with fresh seeds.

    In each round the better half goes on, and trains twice as long. Held-out images rank them. With --protocol gaea,
    each of 5 searches trains once in full, and the best with 10 seeds on all images; with amended, each 3 times.
    """
    from archgrad.cli.console import print_result, say_loading

    console = say_loading(as_json)
    from archgrad.cli.select import run_select, search_again, searches_wanted, selection_plan, show_selection

    given = {"space": space, "stem": stem, **{name: value for name, value in options.items() if value is not None}}
    wanted, how = searches_wanted(runs, searches, protocol), (preset, protocol, seeds, test, settings or [], given)
    runs = search_again(runs, wanted, selection_plan(runs, *how), console)
    plan = selection_plan(runs, *how)
    print_result(run_select(plan, out, False, console), show_selection, as_json)


@partial(with_config_options, helps=FIT)
def fit(
    *,
    budget: Annotated[str, typer.Option(metavar="TIME", help="Time for everything: 90s, 30m, 2h. [30m]")] = "30m",
    max_params: Annotated[str | None, typer.Option(help="Most parameters of the network, such as 1M. [any]")] = None,
    max_madds: Annotated[str | None, typer.Option(help="Most multiply-adds for one image, such as 50M. [any]")] = None,
    max_latency: Annotated[
        str | None, typer.Option(help="Longest time for one image on this machine, such as 5ms. [any]")
    ] = None,
    test: Annotated[
        str | None, typer.Option(help="Test images, as --data. [those of the data, or a fifth of the images]")
    ] = None,
    target: Annotated[
        Path | None,
        typer.Option("-o", metavar="MODEL", help="Write the model here too: a folder, or FILE.onnx, .pt2 or .py. [-]"),
    ] = None,
    out: _Out = None,
    as_json: AsJson = False,
    **options: Any,
) -> None:
    """Make a model from images: search, select, train, test, and compare with a residual network of equal size."""
    from archgrad.cli.console import print_result, say_loading

    console = say_loading(as_json)
    from archgrad.cli.fit import run_fit, show_fit

    limits: dict[str, Any] = {"max_params": max_params, "max_madds": max_madds, "max_latency": max_latency}
    given = {"budget": budget, "test": test, "target": target, **limits, **options}
    request = {"data": "digits"} | {name: value for name, value in given.items() if value is not None}
    print_result(run_fit(request, out, False, console), show_fit, as_json)


def resume_workflow(folder: Path, workers: int | None, as_json: bool) -> None:
    """Continue a training, a selection or a fit."""
    from archgrad.cli.console import print_result, say_loading
    from archgrad.system.files import exists

    console = say_loading(as_json)
    from archgrad.cli.fit import REQUEST, run_fit, show_fit
    from archgrad.cli.select import run_select, show_selection
    from archgrad.cli.train import run_plan, show_training
    from archgrad.workflows.fit_folder import FIT as FIT_FILE
    from archgrad.workflows.fit_folder import read_request
    from archgrad.workflows.selection_folder import CANDIDATES, read_selection_plan
    from archgrad.workflows.training_folder import read_plan

    if exists(folder / FIT_FILE):
        request = read_request(folder, REQUEST)
        request |= {} if workers is None else {"workers": workers}
        print_result(run_fit(request, folder, True, console), show_fit, as_json)
        return
    if exists(folder / CANDIDATES):
        selection = read_selection_plan(folder, {})
        selection = replace(selection, training=selection.training.with_workers(workers))
        print_result(run_select(selection, folder, True, console), show_selection, as_json)
        return
    plan = read_plan(folder, {}).with_workers(workers)
    print_result(run_plan(plan, folder, True, console), show_training, as_json)
