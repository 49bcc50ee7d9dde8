"""The options and arguments of the commands, with their help texts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "AlphaBudget", "ArchOptimizer", "AsJson", "BatchSize", "Best", "CallbackNames", "Cells", "Channels",
    "ComparedBatches", "ComparedSteps", "Compile", "ConfigFile", "CurveFile", "Data", "DataDir", "Device",
    "Discretization", "Discretizer", "DrawingFile", "DrawnGenotype", "DryRun", "Epochs", "HealthFile", "HeldOut",
    "Hypergradient", "HypergradientErrors", "ImageSize", "InspectedRuns", "Layers", "Limit", "ListName", "Markdown",
    "Measure", "MeasuringDevice", "Method", "MethodName", "OnCollapse", "Oracle", "PlottedRuns", "QueriedGenotype",
    "Regularizer", "Relaxation", "RunDir", "Seed", "Settings", "SettingsSpace", "Space", "Split", "TableFile",
    "Threads", "TimeLimit", "UnfinishedRun", "WarningScores",
]  # fmt: skip

Text = str | None
Number = int | None
File = Path | None

# Of several commands
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]

# Of `archgrad search`: what to search, and how
Space = Annotated[Text, typer.Option(help="Search space (see `archgrad list spaces`). [nasbench201]")]
Method = Annotated[Text, typer.Option(help="Method (see `archgrad list methods`). [gaea-simultaneous]")]
Relaxation = Annotated[
    Text, typer.Option(help="Replace the method's relaxation (see `archgrad list relaxations`). [the method's]")
]
Hypergradient = Annotated[
    Text,
    typer.Option(
        help="Replace the method's architecture gradient (see `archgrad list hypergradients`). [the method's]"
    ),
]
ArchOptimizer = Annotated[
    Text,
    typer.Option(help="Replace the method's architecture optimizer (see `archgrad list optimizers`). [the method's]"),
]
Regularizer = Annotated[
    Text,
    typer.Option(
        help="Replace the method's regularizers (see `archgrad list regularizers`): NAME,NAME or none; "
        "+NAME,+NAME adds to them. [the method's]"
    ),
]
Discretizer = Annotated[
    Text, typer.Option(help="Replace the method's discretizer (see `archgrad list discretizers`). [the method's]")
]
CallbackNames = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="Add this callback to the search (see `archgrad list callbacks`). Repeatable. [the standard ones]",
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PART.KNOB=VALUE",
        help="Set a knob of a part: arch_optimizer.lr=0.001. Repeatable. [as published for the method and the space]",
    ),
]
AlphaBudget = Annotated[
    Text,
    typer.Option(
        metavar="published|off|FACTOR",
        help="How far the architecture may move. published: as far as in the published search; a shorter search gets "
        "a larger learning rate. off: keep the learning rate. A number multiplies it. [published]",
    ),
]
OnCollapse = Annotated[
    Text,
    typer.Option(
        metavar="warn|stop|switch|ignore",
        help="What to do when the search collapses into skip connections or `none`. warn: say so. stop: end with the "
        "last sound architecture. switch: go back to it and continue with layer alignment. ignore: do not check. "
        "[warn]",
    ),
]

# Of `archgrad search`: the data
Data = Annotated[Text, typer.Option(help="Data (see `archgrad list data`). [digits]")]
DataDir = Annotated[Text, typer.Option(help="Folder that holds cifar10 and cifar100. [ARCHGRAD_DATA]")]
Limit = Annotated[
    Number,
    typer.Option(help="Use only this many images; class proportions stay. [chosen by --time-limit, or all]"),
]
ImageSize = Annotated[Number, typer.Option(help="Resize the images to this width and height. [as they are]")]
Split = Annotated[
    Text,
    typer.Option(
        help="Shares of the images that train weights and architecture, as 0.1:0.025. [0.5:0.5; all for single level]"
    ),
]
HeldOut = Annotated[
    float | None,
    typer.Option(help="Share of the images that train no weights and measure each epoch; 0: none. [0.1]"),
]
Oracle = Annotated[
    Text,
    typer.Option(
        metavar="auto|none|DATASET",
        help="Show the accuracy of the current cell from a table. auto: on the searched data, if there is a table. "
        "none: do not. Or name data sets: cifar10,cifar100,imagenet16-120. [auto]",
    ),
]

# Of `archgrad search`: the sizes
Epochs = Annotated[Number, typer.Option(help="Epochs of the search. [chosen by --time-limit, or published]")]
Channels = Annotated[Number, typer.Option(help="Width of the first cells. [chosen by --time-limit, or published]")]
Cells = Annotated[
    Number,
    typer.Option(
        help="Depth: cells per stage (nasbench201) or in total (other spaces). [chosen by --time-limit, or published]"
    ),
]
BatchSize = Annotated[Number, typer.Option(help="Images per batch. [chosen by --time-limit, or published]")]
TimeLimit = Annotated[
    float | None,
    typer.Option(
        metavar="MINUTES",
        help="Choose width, depth, epochs, batch size and number of images so that the search takes about this long "
        "on this machine; sizes that you give stay. 0: use the published sizes. [5 if neither width, depth, epochs "
        "nor batch size is given, else 0]",
    ),
]

# Of `archgrad search`: the run
Seed = Annotated[Number, typer.Option(help="Seed of all random numbers. [0]")]
ConfigFile = Annotated[File, typer.Option(help="TOML file with these options; the command line overrides it. [none]")]
RunDir = Annotated[File, typer.Option(help="Run directory. [a new one under runs/]")]
Device = Annotated[Text, typer.Option(help="cpu, cuda, cuda:1, … [cpu]")]
Threads = Annotated[Number, typer.Option(help="CPU threads. [the fastest here and now]")]
Compile = Annotated[
    bool | None,
    typer.Option("--compile/--no-compile", help="Use torch.compile: slow to start, then faster. [no-compile]"),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Estimate time and memory of this search from a few steps; start nothing.")
]

# Of `archgrad resume`
UnfinishedRun = Annotated[Path, typer.Argument(metavar="DIR", help="Run directory of an unfinished search.")]

# Of `archgrad inspect`
InspectedRuns = Annotated[list[Path], typer.Argument(metavar="DIR...", help="Run directory; several with --warnings.")]
HypergradientErrors = Annotated[
    bool,
    typer.Option("--hypergradient", help="Compare architecture gradients with a long conjugate gradient."),
]
Discretization = Annotated[
    bool,
    typer.Option("--discretization", help="Measure the accuracy lost when the mixture becomes one architecture."),
]
Layers = Annotated[
    bool, typer.Option("--layers", help="Compare node gradients and convolutions of the cells in each stage.")
]
WarningScores = Annotated[
    bool, typer.Option("--warnings", help="Check on finished runs whether the doctor's warnings were right.")
]
HealthFile = Annotated[
    File, typer.Option("--out", "-o", help="Draw the curves into FILE.svg, .png or .pdf. [diagnosis.svg in the run]")
]
ComparedBatches = Annotated[Number, typer.Option(min=1, help="Number of batches to compare on. [4]")]
ComparedSteps = Annotated[Number, typer.Option(min=1, help="Conjugate gradient steps of the reference. [50]")]
MeasuringDevice = Annotated[Text, typer.Option(help="Measure on this device. [that of the run]")]

# Of `archgrad list`
ListName = Annotated[
    str,
    typer.Argument(
        metavar="spaces|methods|relaxations|hypergradients|optimizers|regularizers|discretizers|callbacks|data",
        help="What to list.",
    ),
]
MethodName = Annotated[Text, typer.Argument(help="A method, or all: list every setting with its source.")]
SettingsSpace = Annotated[Text, typer.Option(help="List the method's settings in this space only.")]
Markdown = Annotated[bool, typer.Option("--markdown", help="Print the settings as a Markdown page.")]

# Of `archgrad query`, `draw` and `plot`
QueriedGenotype = Annotated[
    Text,
    typer.Argument(
        help="A NAS-Bench-201 or -1Shot1 genotype, a NAS-Bench-101 module as JSON, or a file or run directory with one."
    ),
]
TableFile = Annotated[
    File,
    typer.Option(
        help="Accuracy table: CSV for NAS-Bench-201 [ARCHGRAD_DATA, then archgrad[nasbench201]], TFRecord for "
        "NAS-Bench-101 [ARCHGRAD_DATA]."
    ),
]
Best = Annotated[bool, typer.Option("--best", help="Look up the best cell of the table instead.")]
DrawnGenotype = Annotated[
    str, typer.Argument(help="A genotype, a NAS-Bench-101 module as JSON, or a file or run directory with one.")
]
DrawingFile = Annotated[File, typer.Option("--out", "-o", help="FILE.svg, .png, .pdf, .dot or .txt. [print as text]")]
PlottedRuns = Annotated[list[Path], typer.Argument(metavar="DIR...", help="Run directories.")]
Measure = Annotated[
    Text,
    typer.Option(
        help="Measure to plot, by its name in metrics.jsonl. [the oracle accuracy that all runs have, else "
        "heldout_accuracy]"
    ),
]
CurveFile = Annotated[Path, typer.Option("--out", "-o", help="FILE.svg, .png or .pdf.")]
