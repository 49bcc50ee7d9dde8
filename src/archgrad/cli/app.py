"""The commands and their options; what they do is imported when they run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from archgrad.errors import ArchgradError, SearchInterrupted, UserError, unknown

if TYPE_CHECKING:
    from archgrad.config import SearchConfig

__all__ = ["app", "main"]

app = typer.Typer(
    name="archgrad",
    help="Stable differentiable neural architecture search.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Text = str | None
Number = int | None
File = Path | None


def main() -> None:
    """Run the command; the user's mistakes are one sentence and exit code 2, never a traceback."""
    from archgrad.cli.console import errors, log_to, never_fail_to_print, say

    never_fail_to_print()
    log_to(errors())
    try:
        app()
    except SearchInterrupted as interruption:
        say(str(interruption), errors())
        sys.exit(128 + interruption.signal)
    except UserError as error:
        say(f"error: {error}", errors())
        sys.exit(2)
    except ArchgradError as error:
        say(f"error: {error}", errors())
        sys.exit(1)
    except KeyboardInterrupt:
        say("stopped.", errors())
        sys.exit(130)


def _show_version(wanted: bool) -> None:
    if wanted:
        from archgrad import __version__

        typer.echo(f"archgrad {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    pass


@app.command()
def search(
    space: Annotated[Text, typer.Option(help="Search space (see `archgrad list spaces`). [nasbench201]")] = None,
    method: Annotated[Text, typer.Option(help="Method (see `archgrad list methods`). [gaea-simultaneous]")] = None,
    relaxation: Annotated[
        Text,
        typer.Option(help="Another relaxation than the method's (see `archgrad list relaxations`). [the method's]"),
    ] = None,
    hypergradient: Annotated[
        Text,
        typer.Option(
            help="Another architecture gradient than the method's (see `archgrad list hypergradients`). [the method's]"
        ),
    ] = None,
    arch_optimizer: Annotated[
        Text,
        typer.Option(
            help="Another architecture optimiser than the method's (see `archgrad list optimizers`). [the method's]"
        ),
    ] = None,
    regularizer: Annotated[
        Text,
        typer.Option(
            help="Other regularisers than the method's, by commas (see `archgrad list regularizers`), or none; "
            "+NAME,+NAME adds to the method's own. [the method's]"
        ),
    ] = None,
    discretizer: Annotated[
        Text,
        typer.Option(help="Another discretiser than the method's (see `archgrad list discretizers`). [the method's]"),
    ] = None,
    callback: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Watch the search with this callback too (see `archgrad list callbacks`). Repeatable. [the standard "
            "ones]",
        ),
    ] = None,
    data: Annotated[Text, typer.Option(help="Data (see `archgrad list data`). [digits]")] = None,
    epochs: Annotated[Number, typer.Option(help="Epochs of the search. [chosen by --time-limit, or published]")] = None,
    seed: Annotated[Number, typer.Option(help="Seed of everything random. [0]")] = None,
    channels: Annotated[
        Number, typer.Option(help="Width of the first cells. [chosen by --time-limit, or published]")
    ] = None,
    cells: Annotated[
        Number,
        typer.Option(
            help="Depth: cells per stage (nasbench201) or in all (other spaces). [chosen by --time-limit, or published]"
        ),
    ] = None,
    batch_size: Annotated[Number, typer.Option(help="Images per batch. [chosen by --time-limit, or published]")] = None,
    limit: Annotated[
        Number,
        typer.Option(help="Use this many images, every class in its proportion. [chosen by --time-limit, or all]"),
    ] = None,
    image_size: Annotated[Number, typer.Option(help="Resize the images to this side. [as they are]")] = None,
    split: Annotated[
        Text, typer.Option(help="Parts for weights and architecture, as 0.1:0.025. [0.5:0.5; all for single level]")
    ] = None,
    held_out: Annotated[
        float | None,
        typer.Option(help="Share of the images that measure each epoch and train no weights; 0: none. [0.1]"),
    ] = None,
    data_dir: Annotated[Text, typer.Option(help="Where cifar10 and cifar100 are. [ARCHGRAD_DATA]")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="PART.KNOB=VALUE",
            help="Turn a knob: arch_optimizer.lr=0.001. Repeatable. [as published for the method and the space]",
        ),
    ] = None,
    config: Annotated[File, typer.Option(help="TOML file with these options; the command line wins. [none]")] = None,
    out: Annotated[File, typer.Option(help="Run directory. [a new one under runs/]")] = None,
    time_limit: Annotated[
        float | None,
        typer.Option(
            metavar="MINUTES",
            help="Choose width, depth, epochs, batches and images, as far as they are not given, so that the search "
            "takes about so long here; 0: the published ones. [5 if neither width, depth, epochs nor batches are "
            "given, else 0]",
        ),
    ] = None,
    device: Annotated[Text, typer.Option(help="cpu, cuda, cuda:1, … [cpu]")] = None,
    threads: Annotated[Number, typer.Option(help="CPU threads. [as PyTorch chooses]")] = None,
    compile_: Annotated[
        bool | None,
        typer.Option("--compile/--no-compile", help="Use torch.compile: slow to start, then faster. [no-compile]"),
    ] = None,
    on_collapse: Annotated[
        Text,
        typer.Option(
            metavar="warn|stop|switch|ignore",
            help="When the search collapses into skip connections or `none`: say so, stop with the last sound "
            "architecture, go back to it and on with layer alignment, or look for no signs of it. [warn]",
        ),
    ] = None,
    alpha_budget: Annotated[
        Text,
        typer.Option(
            metavar="published|off|FACTOR",
            help="How far the architecture may move: as in the published search, by a larger learning rate where it "
            "took more steps than this one; off keeps the bare rate, a number multiplies it. [published]",
        ),
    ] = None,
    oracle: Annotated[
        Text,
        typer.Option(
            metavar="auto|none|DATASET",
            help="Accuracies of the current cell to show from a table at hand: those on the data that is searched on "
            "(auto), none, or those on cifar10, cifar100, imagenet16-120, by commas. [auto]",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Estimate time and memory of this search from a few steps; start nothing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Search for an architecture."""
    from archgrad.config import SearchConfig, read_config
    from archgrad.knobs import parse_setting

    given = {
        "space": space, "method": method, "relaxation": relaxation, "hypergradient": hypergradient,
        "arch_optimizer": arch_optimizer, "regularizer": regularizer, "discretizer": discretizer,
        "callback": ",".join(callback) if callback else None, "data": data,
        "epochs": epochs, "seed": seed, "channels": channels, "cells": cells, "batch_size": batch_size,
        "limit": limit, "image_size": image_size, "split": split, "held_out": held_out, "data_dir": data_dir,
        "device": device, "threads": threads, "compile": compile_, "on_collapse": on_collapse, "oracle": oracle,
        "alpha_budget": alpha_budget, "time_limit": time_limit,
    }  # fmt: skip
    values = read_config(config) if config is not None else {}
    values |= {name: value for name, value in given.items() if value is not None}
    values["settings"] = {**values.get("settings", {}), **dict(map(parse_setting, settings or []))}
    chosen = SearchConfig(**values)
    if dry_run:
        _dry_run(chosen, as_json)
    else:
        _run(chosen, out, False, as_json)


@app.command()
def resume(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Run directory of an unfinished search.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Continue a search that was stopped or killed, to the same result."""
    from archgrad.config import read_run_config

    _run(read_run_config(folder), folder, True, as_json)


def _dry_run(config: SearchConfig, as_json: bool) -> None:
    from archgrad.cli.console import errors, print_json, results, say

    console = errors() if as_json else results()
    say("loading PyTorch", console)
    from archgrad.cli.dry_run import dry_run, show_dry_run

    found = dry_run(config, console)
    if as_json:
        print_json(found)
    else:
        say(show_dry_run(found))


def _run(config: SearchConfig, out: Path | None, resuming: bool, as_json: bool) -> None:
    from archgrad.cli.console import errors, print_json, results, say

    console = errors() if as_json else results()
    say("loading PyTorch", console)  # before the import, which takes seconds
    from archgrad.cli.final_report import show_final_report
    from archgrad.cli.search import run

    summary = run(config, out, resuming, console)
    if as_json:
        print_json(summary)
    else:
        say(show_final_report(summary))


@app.command()
def inspect(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Run directory; several with --warnings.")],
    hypergradient: Annotated[
        bool, typer.Option("--hypergradient", help="Compare architecture gradients with long conjugate gradient.")
    ] = False,
    discretisation: Annotated[
        bool, typer.Option("--discretisation", help="Measure what the shared weights lose with one architecture.")
    ] = False,
    layers: Annotated[
        bool, typer.Option("--layers", help="Compare node gradients and convolutions of the cells of a stage.")
    ] = False,
    warnings: Annotated[
        bool, typer.Option("--warnings", help="Say of finished runs whether the doctor's warnings were right.")
    ] = False,
    out: Annotated[
        File,
        typer.Option("--out", "-o", help="Draw the curves into FILE.svg, .png or .pdf. [diagnosis.svg in the run]"),
    ] = None,
    batches: Annotated[Number, typer.Option(min=1, help="Batches, or pairs of them, to compare on. [4]")] = None,
    steps: Annotated[Number, typer.Option(min=1, help="Steps of conjugate gradient in the reference. [50]")] = None,
    device: Annotated[Text, typer.Option(help="Measure on this device. [that of the run]")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Look into a run: its health, how wrong its architecture gradient is, or what its discretisation costs.

    Without options it shows the last epoch and a diagnosis, and draws the curves behind it.
    """
    from archgrad.cli import inspect_health, inspect_run
    from archgrad.cli.console import errors, print_json, say

    flags = {
        "--hypergradient": hypergradient, "--discretisation": discretisation, "--layers": layers,
        "--warnings": warnings,
    }  # fmt: skip
    wanted = [flag for flag, given in flags.items() if given]
    if len(wanted) > 1:
        raise UserError(f"{' and '.join(wanted)} look at different things; choose one.")
    if not hypergradient and (steps is not None or (batches is not None and not layers)):
        raise UserError("--batches and --steps belong to --hypergradient, --batches to --layers too; leave them out.")
    if out is not None and wanted:
        raise UserError(f"--out belongs to the curves, which {wanted[0]} does not draw; leave one of the two out.")
    if len(folders) > 1 and not warnings:
        raise UserError(f"{len(folders)} runs are compared with --warnings only; give one, or add that.")
    folder = folders[0]
    if hypergradient:
        found = inspect_run.inspect_estimates(folder, batches or 4, steps or 50, device, errors())
        text = inspect_run.show_estimates(found)
    elif discretisation:
        found = inspect_run.inspect_discretisation(folder, device)
        text = inspect_run.show_discretisation(found)
    elif layers:
        found = inspect_run.inspect_layers(folder, batches or 4, device)
        text = inspect_run.show_layers(found)
    elif device is not None:
        raise UserError("--device belongs to --hypergradient and --discretisation, and --layers; leave it out.")
    elif warnings:
        found = inspect_health.inspect_warnings(folders)
        text = inspect_health.show_warnings(found)
    else:
        found = inspect_health.inspect_diagnosis(folder, out)
        text = inspect_health.show_diagnosis(found)
    if as_json:
        print_json(found)
    else:
        say(text)


@app.command("list")
def list_(
    what: Annotated[
        str,
        typer.Argument(
            metavar="spaces|methods|relaxations|hypergradients|optimizers|regularizers|discretizers|callbacks|data",
            help="What to list.",
        ),
    ],
    name: Annotated[
        Text, typer.Argument(help="One method, to list all its settings with their sources; or all.")
    ] = None,
    space: Annotated[Text, typer.Option(help="The settings of a method in this space only.")] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Write the settings as a page.")] = False,
) -> None:
    """List spaces, methods, the parts that methods are made of, or data, with their knobs.

    `archgrad list methods NAME` lists every setting of a method in every space, and the paper or code that says so.
    """
    from archgrad.cli import listing
    from archgrad.cli.console import say

    if what not in listing.LISTS:
        raise unknown("list", what, listing.LISTS)
    if name is None and space is None and not markdown:
        say(listing.LISTS[what]())
        return
    if what != "methods" or name is None:
        raise UserError(
            "NAME, --space and --markdown belong to `archgrad list methods NAME`; leave them out elsewhere."
        )
    if markdown and space is not None:
        raise UserError("--markdown writes the settings of all spaces; leave --space out.")
    typer.echo(listing.list_settings(name, space, markdown), nl=not markdown)


@app.command()
def query(
    genotype: Annotated[
        Text,
        typer.Argument(
            help="A NAS-Bench-201 or -1Shot1 genotype, a NAS-Bench-101 module as JSON, or a file or run directory "
            "with one."
        ),
    ] = None,
    table: Annotated[
        File,
        typer.Option(
            help="Accuracy table: CSV for NAS-Bench-201 [ARCHGRAD_DATA, then archgrad[nasbench201]], TFRecord for "
            "NAS-Bench-101 [ARCHGRAD_DATA]."
        ),
    ] = None,
    best: Annotated[bool, typer.Option("--best", help="Look up the best cell of the table instead.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Look up the accuracy of a cell of NAS-Bench-201, -101 or -1Shot1, and its size."""
    from archgrad.cli import query as tables
    from archgrad.cli.console import errors, print_json, say
    from archgrad.cli.file_progress import reading_progress

    with reading_progress(errors()) as progress:
        if genotype is not None and not best:
            answer = tables.look_up(tables.read_architecture(genotype), table, progress)
        elif best and genotype is None and table is not None:
            answer = tables.best(table, progress)
        else:
            raise UserError("give either a genotype to look up, or --best with --table FILE for the table's best cell.")
    if as_json:
        print_json(answer.content)
    else:
        say(answer.text)


@app.command()
def draw(
    genotype: Annotated[
        str, typer.Argument(help="A genotype, a NAS-Bench-101 module as JSON, or a file or run directory with one.")
    ],
    out: Annotated[
        File, typer.Option("--out", "-o", help="FILE.svg, .png, .pdf, .dot or .txt. [print as text]")
    ] = None,
) -> None:
    """Draw the cells of a genotype, or a module without its loose ends."""
    from archgrad import report
    from archgrad.cli.console import errors, say
    from archgrad.cli.query import read_drawable

    cell = read_drawable(genotype)
    if out is None:
        say(report.to_text(cell))
        return
    drawn = report.draw(cell, out)
    if drawn != out:
        say(f"{out} needs Graphviz, its program dot and the Python package; here it is as text instead:", errors())
    say(str(drawn))


@app.command()
def plot(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Run directories.")],
    measure: Annotated[
        Text,
        typer.Option(
            help="Number to plot, as metrics.jsonl names it. [the oracle accuracy that all runs have, else "
            "heldout_accuracy]"
        ),
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="FILE.svg, .png or .pdf.")] = Path("curves.svg"),
    as_json: Annotated[bool, typer.Option("--json", help="Print the curves as JSON.")] = False,
) -> None:
    """Plot a measure over the epochs of runs: the mean of each method, and the standard deviation of its seeds."""
    from archgrad.cli.console import print_json, say
    from archgrad.cli.plot import plot_runs

    measure, curves = plot_runs(folders, measure, out)
    if as_json:
        print_json(
            {
                label: [point._asdict() | {"interval": point.interval} for point in line]
                for label, line in curves.items()
            }
        )
        return
    for label, line in curves.items():
        last = line[-1]
        interval = "" if last.interval is None else f" ± {last.interval:.3g} (95 % interval of the mean"
        spread = interval and f"{interval}; standard deviation {last.deviation:.3g}, n = {last.runs})"
        say(f"{label}: {measure} {last.mean:.4g}{spread} after epoch {last.epoch}")
    say(str(out))
