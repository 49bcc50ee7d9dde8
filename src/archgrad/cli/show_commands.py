"""The commands that look at what is there: runs, studies, architectures, tables and models.

Importing them stays fast: each imports PyTorch and the rest of the library only when it runs.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from archgrad.cli.options import AsJson, with_config_options
from archgrad.errors import UserError

__all__ = [
    "convert", "cost", "draw", "export", "inspect", "list_", "measure_latency", "plot", "predict", "query", "report",
    "status", "top", "vote", "watch",
]  # fmt: skip


@partial(with_config_options, defaults={"device": "that of the run"})
def inspect(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Run directory.")],
    *,
    everything: Annotated[bool, typer.Option("--all", help="Show every measure and all reasons.")] = False,
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
    as_json: AsJson = False,
    **options: Any,
) -> None:
    """Look into a run: its health, how wrong its architecture gradient is, or what its discretization costs.

    Without options it shows a diagnosis and the cell, and draws the curves behind it.
    """
    from archgrad.cli import inspect as run
    from archgrad.cli.console import errors, print_result
    from archgrad.system.files import exists

    if exists(folder / "study.toml"):
        raise UserError(
            f"{str(folder)[:150]} is a study; `archgrad compare {str(folder)[:150]} --no-run` reports it, and "
            f"`archgrad inspect` each of its runs."
        )
    device = options["device"]
    asked = {"hypergradient": hypergradient, "discretization": discretization, "layers": layers}
    kinds = [f"--{name}" for name, wanted in asked.items() if wanted]
    if len(kinds) > 1:
        raise UserError(f"{' and '.join(kinds)} are different inspections; choose one.")
    for name, value in {"out": out, "all": everything or None}.items():
        if kinds and value is not None:
            raise UserError(f"--{name} is about the curves of the run, and {kinds[0]} shows none; leave it out.")
    for name, value in {"batches": batches, "steps": steps, "device": device}.items():
        if value is not None and not set(kinds) & set(_INSPECTIONS[name]):
            raise UserError(f"--{name} works only with {' or '.join(_INSPECTIONS[name])}; leave it out.")
    if hypergradient:
        found = run.inspect_estimates(folder, batches or 4, steps or 50, device, errors())
        print_result(found, run.show_estimates, as_json)
    elif discretization:
        print_result(run.inspect_discretization(folder, device), run.show_discretization, as_json)
    elif layers:
        print_result(run.inspect_layers(folder, batches or 4, device), run.show_layers, as_json)
    else:
        found = run.inspect_diagnosis(folder, out)
        print_result(found, lambda found: run.show_diagnosis(found, everything), as_json)


_INSPECTIONS = {
    "batches": ("--hypergradient", "--layers"),
    "steps": ("--hypergradient",),
    "device": ("--hypergradient", "--discretization", "--layers"),
}
"""The inspections that use an option."""


def list_(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="WHAT",
            help="spaces, methods, relaxations, hypergradients, optimizers, regularizers, discretizers, callbacks, "
            "blackbox, tasks, data, genotypes, devices or presets. [these kinds]",
        ),
    ] = None,
    name: Annotated[str | None, typer.Argument(help="One of them, or all: show every setting.")] = None,
    space: Annotated[str | None, typer.Option(help="Show a method's settings in this space only.")] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print all methods as a Markdown page.")] = False,
) -> None:
    """List what can be chosen, a line each: spaces, methods and their parts, tasks, data, genotypes, presets.

    `archgrad list methods NAME` shows every setting of a method in every space, and the paper or code that says so, and
    what `archgrad search --published` does. On a terminal it times a few steps to say how long that takes here.
    """
    from archgrad.cli import listing
    from archgrad.cli.console import say

    if markdown and (what, name, space) != ("methods", "all", None):
        raise UserError("--markdown works only with `archgrad list methods all`; leave it out.")
    if space is not None and (what != "methods" or name in (None, "all")):
        raise UserError("--space works only with `archgrad list methods NAME`; leave it out.")
    if markdown:
        typer.echo(listing.methods_page(), nl=False)
    elif what is None:
        say(listing.list_kinds())
    elif name is None:
        say(listing.list_all(what))
    else:
        say(listing.list_one(what, name) if space is None else listing.list_settings(name, space))
        if what == "methods" and name != "all":
            for text in listing.published_texts(name, space, sys.stdout.isatty()):
                say(text)


def query(
    genotype: Annotated[
        str | None,
        typer.Argument(
            help="A NAS-Bench-201, -1Shot1 or -Macro genotype, a NAS-Bench-101 module as JSON, or a file or run "
            "directory with one."
        ),
    ] = None,
    table: Annotated[
        Path | None,
        typer.Option(
            help="Accuracy table: CSV for NAS-Bench-201 [ARCHGRAD_DATA, then archgrad[nasbench201]], what `archgrad "
            "convert` made for NAS-Bench-101 [ARCHGRAD_DATA], JSON for NAS-Bench-Macro [ARCHGRAD_DATA]."
        ),
    ] = None,
    best: Annotated[bool, typer.Option("--best", help="Look up the best cell of the table instead.")] = False,
    device: Annotated[
        str | None, typer.Option(help="Show its latency instead, on a device of `archgrad list devices`, or on all.")
    ] = None,
    latency_table: Annotated[
        Path | None, typer.Option(help="CSV file of latencies, as of `archgrad measure-latency`. [ARCHGRAD_DATA]")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Look up accuracy and size of a cell of NAS-Bench-201, -101, -1Shot1 or -Macro, or its latency on devices."""
    from archgrad.cli.console import print_result
    from archgrad.tables import find_best, look_up, look_up_latency
    from archgrad.workflows.architecture import read_architecture

    if device is not None or latency_table is not None:
        if genotype is None or best or table is not None:
            raise UserError("--device and --latency-table are about a given cell; leave --best and --table out.")
        cell = read_architecture(genotype)
        answer = look_up_latency(str(cell), device or "all", latency_table)
    elif genotype is not None and not best:
        answer = look_up(read_architecture(genotype), table)
    elif best and genotype is None and table is not None:
        answer = find_best(table)
    else:
        raise UserError("give either a genotype to look up, or --best with --table FILE for the table's best cell.")
    print_result(answer.content, lambda content: answer.text, as_json)


@partial(
    with_config_options,
    defaults={
        "channels": "the run's, or the published",
        "cells": "the run's, or the published",
        "image_size": "the run's, or 32",
    },
)
def cost(
    genotype: Annotated[
        str,
        typer.Argument(metavar="GENOTYPE|DIR", help="A genotype, a file or run directory with one, or a known name."),
    ],
    *,
    space: Annotated[str | None, typer.Option(help="Its space. [the run's, or the first that has it]")] = None,
    stem: Annotated[str | None, typer.Option(help="cifar or imagenet. [the run's, or cifar]")] = None,
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
    **options: Any,
) -> None:
    """Count parameters, multiply-adds and memory of an architecture's network, and time it."""
    from archgrad.cli.console import print_result
    from archgrad.cli.cost import measure_cost, shape_of, show_cost
    from archgrad.system.amounts import read_amount
    from archgrad.workflows.architecture import find_architecture

    limit = None if max_madds is None else read_amount("--max-madds", max_madds)
    found = find_architecture(
        genotype, space, {"stem": stem, **{name: options[name] for name in ("channels", "cells")}}
    )
    given = {"input_channels": input_channels, "image_size": options["image_size"], "num_classes": classes}
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
    from archgrad.cli.console import say
    from archgrad.workflows.architecture import read_drawable

    cell = read_drawable(genotype)
    if out is None:
        say(report.to_text(cell))
        return
    say(str(report.draw(cell, out)))


def plot(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Run directories, or a study.")],
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


def status(study: Annotated[Path, typer.Argument(metavar="STUDY", help="Folder of a study.")]) -> None:
    """Show how far a study is, also while another terminal or machine works on it."""
    from archgrad.cli.compare import show_status
    from archgrad.cli.console import results
    from archgrad.studies import Study

    show_status(Study.load(study), results())


def top(
    path: Annotated[Path, typer.Argument(metavar="RUN|STUDY", help="Run directory of a search, or folder of a study.")],
    k: Annotated[int, typer.Option("-k", min=1, max=100_000, help="How many architectures.")] = 10,
    as_json: AsJson = False,
) -> None:
    """Show the k best architectures of a search by its own probabilities, or of a study by the votes of its runs."""
    from archgrad.cli.compare import show_top, top_content
    from archgrad.cli.console import print_result

    found = top_content(path, k)
    content = {place: [one.to_dict() for one in best] for place, best in found.items()}
    print_result(content, lambda content: show_top(found), as_json)


def vote(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="DIR...", help="Run directories of searches that differ in their seeds, or a study."),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="New folder for the architecture, for `archgrad train`. [-]")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Let finished searches vote: derive one architecture from the mean of their mixtures."""
    from archgrad.cli.console import print_result
    from archgrad.cli.vote import show_vote, vote_into

    print_result(vote_into(runs, out), show_vote, as_json)


def report(
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Run directories, a study, or a folder of runs.")
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="FILE.html to write. [report.html]", show_default=False)
    ] = Path("report.html"),
) -> None:
    """Write one page with curves, the evolving cell, tables and findings; it needs no network."""
    from archgrad.cli.console import say
    from archgrad.pages.report import write_report

    say(str(write_report(folders, out)))


def watch(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A run directory, a study, or a folder of runs.")],
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of 127.0.0.1. [a free one]", show_default=False)
    ] = 0,
    open_: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """Show runs live in a browser on this machine, until Ctrl-C; nothing can be changed there."""
    from archgrad.cli.console import say
    from archgrad.pages.server import serve

    serve(folder, port, open_, say)


def convert(
    source: Annotated[Path, typer.Argument(metavar="FILE", help="A .tfrecord file of NAS-Bench-101.")],
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", help="File to write; searches find nasbench101/nasbench101.parquet in ARCHGRAD_DATA."
        ),
    ] = Path("nasbench101.parquet"),
    as_json: AsJson = False,
) -> None:
    """Write the accuracy table that --table reads from the official file of NAS-Bench-101."""
    from archgrad.callbacks.progress import reading_progress
    from archgrad.cli.console import errors, print_result
    from archgrad.tables import convert_table

    with reading_progress(errors()) as progress:
        columns = convert_table(source, out, progress)
    text = "\n".join([str(out), *(f"  {name:<21} {count} cells" for name, count in columns.items())])
    print_result({"table": str(out), "columns": columns}, lambda content: text, as_json)


def measure_latency(
    out: Annotated[Path, typer.Option("--out", "-o", help="Table to write, or to go on with.")] = Path("latency.csv"),
    cells: Annotated[
        int, typer.Option(min=30, max=15_625, help="How many cells are timed; all others are predicted.")
    ] = 100,
    device: Annotated[str, typer.Option(help="Name of this machine in the table.")] = "here",
    image_size: Annotated[int, typer.Option(min=8, max=1024, help="Side of the images in pixels.")] = 32,
    batch_size: Annotated[int, typer.Option(min=1, max=4096, help="Images per batch.")] = 1,
    threads: Annotated[int, typer.Option(min=1, max=256, help="CPU threads.")] = 1,
    channels: Annotated[int, typer.Option(min=1, max=1024, help="Width of the first cells.")] = 16,
    depth: Annotated[int, typer.Option(min=1, max=100, help="Cells per stage.")] = 5,
    as_json: AsJson = False,
) -> None:
    """Time cells of NAS-Bench-201 on this machine, and write the latencies of all of them as a table.

    A table that was stopped goes on. Searches use it with --set cost-penalty.metric=latency --set
    cost-penalty.table=FILE.
    """
    from archgrad.callbacks.progress import reading_progress
    from archgrad.cli.console import errors, print_result
    from archgrad.spaces import NASBench201
    from archgrad.tables.nasbench201.measure_latency import Setting, measure_table

    setting = Setting(NASBench201(channels=channels, cells_per_stage=depth), image_size, batch_size, threads)
    with reading_progress(errors(), cells=True) as progress:
        found = measure_table(out, setting, device, cells, progress)
    fit = found.fit
    text = (
        f"{out}\n  {fit.cells} cells measured, the others predicted\n  additive fit: R² {fit.r2:.4f}, rank correlation "
        f"{fit.rank_correlation:.4f}; R² of cells left out of the fit: {found.left_out_r2:.4f}"
    )
    content = {
        "table": str(out), "measured": fit.cells, "r2": fit.r2, "rank_correlation": fit.rank_correlation,
        "left_out_r2": found.left_out_r2,
    }  # fmt: skip
    print_result(content, lambda content: text, as_json)


def export(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="Folder of a model, or the run directory of a training.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="FILE.onnx or FILE.pt2 (torch.export).")],
    tolerance: Annotated[
        float | None,
        typer.Option(help="Largest error of the exported outputs, as a share of the largest output or of 1. [0.0001]"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a trained model for use elsewhere, and check that it computes the same."""
    from archgrad.cli.console import print_result
    from archgrad.models import Model
    from archgrad.models.export import TOLERANCE, export_model

    written = export_model(Model.load(model), out, TOLERANCE if tolerance is None else tolerance)
    text = f"{written.file}\nthe outputs differ from PyTorch's by at most {written.error:.1e}"
    print_result({"file": str(written.file), "max_error": written.error}, lambda content: text, as_json)


@partial(with_config_options, defaults={"device": "cpu"})
def predict(
    model: Annotated[
        Path,
        typer.Argument(metavar="MODEL", help="Folder of a model, run directory of a training, or exported FILE.onnx."),
    ],
    images: Annotated[
        list[Path], typer.Argument(metavar="IMAGES...", help="Image files, or folders: all images in them.")
    ],
    *,
    top: Annotated[int | None, typer.Option(min=1, help="Show this many classes for each image. [1]")] = None,
    batch_size: Annotated[int, typer.Option(min=1, max=100_000, help="Images per batch.")] = 64,
    as_json: AsJson = False,
    **options: Any,
) -> None:
    """Predict the class, the labels or the numbers of images with a trained model.

    Images that cannot be read are named on standard error, and the exit code is then 2.
    """
    from archgrad.callbacks.progress import reading_progress
    from archgrad.cli.console import errors, print_result, say
    from archgrad.cli.predict import load_model, predictions_content, show_predictions
    from archgrad.models.image_files import find_images, predict_files

    files, loaded = find_images(images), load_model(model, options["device"] or "cpu")
    with reading_progress(errors(), images=True) as progress:
        found = list(predict_files(loaded, files, batch_size, progress))
    broken = [one.result for one in found if isinstance(one.result, UserError)]
    for error in broken:
        say(f"error: {error}", errors())
    print_result(predictions_content(found, loaded.classes, top), show_predictions, as_json)
    if broken:
        raise UserError(f"{len(broken)} of {len(found)} images cannot be read; replace or remove them.")
