"""The commands: parse the options, call what does the work, print.

Importing them stays fast: each imports PyTorch and the rest of the library only when it runs.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from archgrad.cli.options import AsJson, Callbacks, TensorBoard, callback_names, with_config_options
from archgrad.errors import UserError, unknown

if TYPE_CHECKING:
    from archgrad.config import SearchConfig

__all__ = ["cost", "draw", "inspect", "list_", "plot", "query", "search"]


@with_config_options
def search(
    *,
    callback: Callbacks = None,
    tensorboard: TensorBoard = False,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="PART.KNOB=VALUE",
            help="Set a knob of a part: arch_optimizer.lr=0.001. Repeatable. [as published for method and space]",
        ),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="TOML file with these options; the command line overrides it. [none]")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Run directory. [a new one under runs/]")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Estimate time and memory of this search from a few steps; start nothing.")
    ] = False,
    as_json: AsJson = False,
    **options: Any,
) -> None:
    """Search for an architecture."""
    given = {name: value for name, value in options.items() if value is not None}
    if (callbacks := callback_names(callback, tensorboard)) is not None:
        given["callback"] = callbacks
    _carry_out(_config(given, settings or [], config), out, dry_run, as_json)


def _config(given: Mapping[str, Any], settings: Sequence[str], file: Path | None) -> SearchConfig:
    """Return the configuration that the options of ``search`` describe; they override those of the file."""
    from archgrad.cli.console import errors, say
    from archgrad.config import SearchConfig, read_config
    from archgrad.config.toml import without_replaced
    from archgrad.parts.knobs import parse_setting

    values: dict[str, Any] = {}
    knobs = dict(map(parse_setting, settings))
    if file is not None:
        values, dropped = without_replaced(read_config(file), {**given, **knobs})
        if dropped:
            say(
                f"the options replace parts of {file}, so these settings of it are dropped: {', '.join(dropped)}",
                errors(),
            )
    values |= given
    values["settings"] = {**values.get("settings", {}), **knobs}
    return SearchConfig(**values)


def _carry_out(config: SearchConfig, out: Path | None, estimated: bool, as_json: bool) -> None:
    """Search, or only estimate the search."""
    from archgrad.cli.console import print_result, say_loading

    console = say_loading(as_json)
    from archgrad.cli.dry_run import dry_run, show_dry_run
    from archgrad.cli.final_report import show_final_report
    from archgrad.cli.search import run
    from archgrad.distributed.processes import joined

    with joined(config.device):
        found = dry_run(config, console) if estimated else run(config, out, False, console)
        print_result(found, show_dry_run if estimated else show_final_report, as_json)


def inspect(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Run directory.")],
    hypergradient: Annotated[
        bool, typer.Option("--hypergradient", help="Compare architecture gradients with a long conjugate gradient.")
    ] = False,
    discretization: Annotated[
        bool,
        typer.Option(
            "--discretization", help="Measure what the main metric loses when the mixture becomes one architecture."
        ),
    ] = False,
    layers: Annotated[
        bool, typer.Option("--layers", help="Compare node gradients and convolutions of the cells in each stage.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Draw the curves into FILE.svg, .png or .pdf. [diagnosis.svg in the run]"),
    ] = None,
    batches: Annotated[int | None, typer.Option(min=1, help="Number of batches to compare on. [4]")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Conjugate gradient steps of the reference. [50]")] = None,
    device: Annotated[str | None, typer.Option(help="Measure on this device. [that of the run]")] = None,
    as_json: AsJson = False,
) -> None:
    """Look into a run: its health, how wrong its architecture gradient is, or what its discretization costs.

    Without options it shows the last epoch and a diagnosis, and draws the curves behind it.
    """
    from archgrad.cli import inspect as run
    from archgrad.cli.console import errors, print_result

    _check_inspection(locals())
    if hypergradient:
        found = run.inspect_estimates(folder, batches or 4, steps or 50, device, errors())
        show = run.show_estimates
    elif discretization:
        found, show = run.inspect_discretization(folder, device), run.show_discretization
    elif layers:
        found, show = run.inspect_layers(folder, batches or 4, device), run.show_layers
    else:
        found, show = run.inspect_diagnosis(folder, out), run.show_diagnosis
    print_result(found, show, as_json)


def _check_inspection(given: Mapping[str, Any]) -> None:
    """Reject options of ``inspect`` that do not belong together."""
    kinds = [name for name in ("hypergradient", "discretization", "layers") if given[name]]
    if len(kinds) > 1:
        raise UserError(f"{' and '.join(f'--{kind}' for kind in kinds)} are different inspections; choose one.")
    kind = kinds[0] if kinds else None
    if given["steps"] is not None and kind != "hypergradient":
        raise UserError("--steps works only with --hypergradient; leave it out.")
    if given["batches"] is not None and kind not in ("hypergradient", "layers"):
        raise UserError("--batches works only with --hypergradient or --layers; leave it out.")
    if given["device"] is not None and kind is None:
        raise UserError("--device works only with --hypergradient, --discretization or --layers; leave it out.")
    if given["out"] is not None and kind is not None:
        raise UserError(f"--out names the file for the curves, but --{kind} draws none; leave one of the two out.")


def list_(
    what: Annotated[
        str,
        typer.Argument(
            metavar="WHAT",
            help="spaces, methods, relaxations, hypergradients, optimizers, regularizers, discretizers, callbacks, "
            "blackbox, tasks, data, genotypes or presets.",
        ),
    ],
    name: Annotated[str | None, typer.Argument(help="A method, or all: list every setting with its source.")] = None,
    space: Annotated[str | None, typer.Option(help="List the method's settings in this space only.")] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the settings as a Markdown page.")] = False,
) -> None:
    """List what can be chosen, with its knobs: spaces, methods and their parts, tasks, data, genotypes, presets.

    `archgrad list methods NAME` lists every setting of a method in every space, and the paper or code that says so, and
    what `archgrad search --published` does. On a terminal it times a few steps to say how long that takes here.
    """
    from archgrad.cli import listing
    from archgrad.cli.console import say

    if what not in listing.LISTS:
        raise unknown("list", what, listing.LISTS)
    if name is None and space is None and not markdown:
        say(listing.LISTS[what]())
        return
    if what != "methods" or name is None:
        raise UserError("NAME, --space and --markdown work only with `archgrad list methods NAME`; leave them out.")
    if markdown and space is not None:
        raise UserError("--markdown prints the settings in all spaces; leave --space out.")
    typer.echo(listing.list_settings(name, space, markdown), nl=not markdown)
    for text in () if markdown or name == "all" else listing.published_texts(name, space, sys.stdout.isatty()):
        typer.echo(text)


def query(
    genotype: Annotated[
        str | None,
        typer.Argument(
            help="A NAS-Bench-201 or -1Shot1 genotype, a NAS-Bench-101 module as JSON, or a file or run directory "
            "with one."
        ),
    ] = None,
    table: Annotated[
        Path | None,
        typer.Option(
            help="Accuracy table: CSV for NAS-Bench-201 [ARCHGRAD_DATA, then archgrad[nasbench201]], what `archgrad "
            "convert` made for NAS-Bench-101 [ARCHGRAD_DATA]."
        ),
    ] = None,
    best: Annotated[bool, typer.Option("--best", help="Look up the best cell of the table instead.")] = False,
    as_json: AsJson = False,
) -> None:
    """Look up the accuracy of a cell of NAS-Bench-201, -101 or -1Shot1, and its size."""
    from archgrad.cli.architecture import read_architecture
    from archgrad.cli.console import print_result
    from archgrad.tables import find_best, look_up

    if genotype is not None and not best:
        answer = look_up(read_architecture(genotype), table)
    elif best and genotype is None and table is not None:
        answer = find_best(table)
    else:
        raise UserError("give either a genotype to look up, or --best with --table FILE for the table's best cell.")
    print_result(answer.content, lambda content: answer.text, as_json)


def cost(
    genotype: Annotated[
        str,
        typer.Argument(metavar="GENOTYPE|DIR", help="A genotype, a file or run directory with one, or a known name."),
    ],
    space: Annotated[str | None, typer.Option(help="Its space. [the run's, or the first that has it]")] = None,
    channels: Annotated[int | None, typer.Option(min=1, max=4096, help="Width. [the run's, or the published]")] = None,
    cells: Annotated[int | None, typer.Option(min=1, max=200, help="Depth. [the run's, or the published]")] = None,
    stem: Annotated[str | None, typer.Option(help="cifar or imagenet. [the run's, or cifar]")] = None,
    image_size: Annotated[
        int | None, typer.Option(min=1, max=10_000, help="Side of the images in pixels. [the run's, or 32]")
    ] = None,
    input_channels: Annotated[
        int | None, typer.Option(min=1, max=10_000, help="Channels of the images. [the run's, or 3]")
    ] = None,
    classes: Annotated[
        int | None, typer.Option(min=1, max=10_000, help="Outputs of the network. [the run's, or 10]")
    ] = None,
    max_madds: Annotated[
        str | None, typer.Option(help="Find the width within this many multiply-adds, such as 600M, and measure that.")
    ] = None,
    latency: Annotated[bool, typer.Option("--latency/--no-latency", help="Measure the time on this machine.")] = True,
    as_json: AsJson = False,
) -> None:
    """Count parameters, multiply-adds and memory of an architecture's network, and time it."""
    from archgrad.cli.architecture import find_architecture
    from archgrad.cli.console import print_result
    from archgrad.cli.cost import measure_cost, shape_of, show_cost
    from archgrad.system.amounts import read_amount

    limit = None if max_madds is None else read_amount("--max-madds", max_madds)
    found = find_architecture(genotype, space, {"channels": channels, "cells": cells, "stem": stem})
    given = {"input_channels": input_channels, "image_size": image_size, "num_classes": classes}
    known = {name: one for name, one in given.items() if one is not None}
    images = known if len(known) == len(given) else shape_of(found) | known
    print_result(measure_cost(found, images, limit, latency), show_cost, as_json)


def draw(
    genotype: Annotated[
        str,
        typer.Argument(
            metavar="GENOTYPE|DIR",
            help="A genotype, a NAS-Bench-101 module as JSON, a file or run directory with one, or a known name.",
        ),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="FILE.svg, .png, .pdf or .txt. [print as text]")
    ] = None,
) -> None:
    """Draw the cells of a genotype, or a module without its loose ends."""
    from archgrad import report
    from archgrad.cli.architecture import read_drawable
    from archgrad.cli.console import say

    cell = read_drawable(genotype)
    if out is None:
        say(report.to_text(cell))
        return
    say(str(report.draw(cell, out)))


def plot(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Run directories, or the folder of a study.")],
    measure: Annotated[
        str | None,
        typer.Option(
            help="Measure to plot, by its name in metrics.jsonl. [the oracle accuracy that all runs have, else "
            "the held-out main metric]"
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(metavar="epochs|seconds|arch_steps", help="What the curves of a study run over. [epochs]"),
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="FILE.svg, .png or .pdf.")] = Path("curves.svg"),
    as_json: AsJson = False,
) -> None:
    """Plot a measure over the epochs of runs: the mean of each method, and the standard deviation of its seeds.

    Of a study it plots the mean of each variant and the 95 % interval of the mean.
    """
    from archgrad.cli.console import print_result
    from archgrad.cli.plot import curves_content, plot_runs, plot_study, show_curves
    from archgrad.studies.folder import StudyFolder

    if len(folders) == 1 and StudyFolder(folders[0]).exists():
        from archgrad.studies import Study

        drawn = plot_study(Study.load(folders[0]), measure, against or "epochs", out)
        content = {str(path): about for path, about in drawn.items()}
        print_result(content, lambda content: "\n".join(content), as_json)
        return
    if against is not None:
        raise UserError("--against works only with the folder of a study; leave it out.")
    measure, curves = plot_runs(folders, measure, out)
    print_result(curves_content(curves), lambda content: f"{show_curves(curves, measure)}\n{out}", as_json)
