"""The commands that compute something new: a search, a model, a selection, a study.

Importing them stays fast: each imports PyTorch and the rest of the library only when it runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from archgrad.cli.options import (
    FIT,
    STUDY,
    TRAINING,
    AsJson,
    Callbacks,
    Settings,
    TensorBoard,
    callback_names,
    with_config_options,
)
from archgrad.errors import UserError

__all__ = ["compare", "fit", "resume", "search", "select", "train"]

_Preset = Annotated[
    str,
    typer.Option(
        help="Settings of a paper (`archgrad list presets`), such as cifar-darts, or quick. [quick]", show_default=False
    ),
]
_Stem = Annotated[str | None, typer.Option(help="cifar or imagenet. [the preset's]")]
_Test = Annotated[str | None, typer.Option(help="Test images, as --data. [those of the data, if it has any]")]
_TimeLimit = Annotated[
    float | None,
    typer.Option(
        metavar="MINUTES",
        help="Choose the epochs so that each seed takes about this long here. [5 with the preset quick]",
    ),
]
_Out = Annotated[Path | None, typer.Option("--out", "-o", help="Run directory. [a new one under runs/]")]


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
    voters: Annotated[
        int,
        typer.Option(
            min=1,
            max=1000,
            metavar="N",
            help="Search with so many seeds, as many at once as there are cores; their mean mixture decides. "
            "--time-limit is for all of them. [1]",
            show_default=False,
        ),
    ] = 1,
    as_json: AsJson = False,
    **options: Any,
) -> None:
    """Search for an architecture."""
    given = {name: value for name, value in options.items() if value is not None}
    if (callbacks := callback_names(callback, tensorboard)) is not None:
        given["callback"] = callbacks
    from archgrad.cli.console import print_result, say_loading
    from archgrad.config import SearchConfig

    if dry_run and voters > 1:
        raise UserError(f"--dry-run estimates one search, but --voters is {voters}; leave one of them out.")
    values = _options(given, settings or [], config)
    described = SearchConfig(**values)
    console = say_loading(as_json)
    if voters > 1:
        from archgrad.cli.vote import search_with_voters, show_vote

        print_result(search_with_voters(values, voters, out, console), show_vote, as_json)
        return
    from archgrad.cli.final_report import show_final_report
    from archgrad.cli.search import estimated, run, show_estimate
    from archgrad.distributed.processes import joined

    with joined(described.device):
        found = estimated(described, console) if dry_run else run(described, out, False, console)
        print_result(found, show_estimate if dry_run else show_final_report, as_json)


def _options(given: Mapping[str, Any], settings: Sequence[str], file: Path | None) -> dict[str, Any]:
    """Return the arguments of the configuration that ``search`` describes; they override those of the file."""
    from archgrad.cli.console import errors, say
    from archgrad.config import read_config
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
    return values


@partial(with_config_options, defaults=TRAINING)
def train(
    genotype: Annotated[
        str,
        typer.Argument(metavar="GENOTYPE|DIR", help="A genotype, a file or run directory with one, or a known name."),
    ],
    *,
    space: Annotated[str | None, typer.Option(help="Its space. [the run's, or the first that has it]")] = None,
    stem: _Stem = None,
    preset: _Preset = "quick",
    seeds: Annotated[
        int, typer.Option(min=1, max=1000, help="Number of trainings, each with its own seed. [1]", show_default=False)
    ] = 1,
    test: _Test = None,
    time_limit: _TimeLimit = None,
    start_from: Annotated[
        Path | None, typer.Option(help="Model whose weights are the first ones, as far as they fit. [new weights]")
    ] = None,
    callback: Callbacks = None,
    tensorboard: TensorBoard = False,
    settings: Settings = None,
    out: _Out = None,
    as_json: AsJson = False,
    **options: Any,
) -> None:
    """Train the network of an architecture from scratch, test it, and save the model."""
    from archgrad.cli.console import print_result, say_loading

    console = say_loading(as_json)
    from archgrad.cli.train import describe_training, show_training, train_with_progress

    own: dict[str, Any] = {"space": space, "stem": stem, "preset": preset, "seeds": seeds, "test": test}
    own |= {"start_from": start_from, "callback": callback_names(callback, tensorboard), "time_limit": time_limit}
    training = describe_training(genotype, settings or [], {**own, **options})
    print_result(train_with_progress(training, out, False, console), show_training, as_json)


@partial(with_config_options, defaults=TRAINING)
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
        str,
        typer.Option(
            metavar="halving|gaea|amended",
            help="How they train; as a paper does, or halving. [halving]",
            show_default=False,
        ),
    ] = "halving",
    space: Annotated[str | None, typer.Option(help="Their space. [the runs', or the first that has them]")] = None,
    stem: _Stem = None,
    preset: _Preset = "quick",
    seeds: Annotated[
        int | None, typer.Option(min=1, max=1000, help="Seeds of the last training. [3, or 10 with gaea]")
    ] = None,
    test: _Test = None,
    time_limit: _TimeLimit = None,
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
    from archgrad.cli import select as selecting

    own = {"space": space, "stem": stem, "preset": preset, "test": test, "time_limit": time_limit}
    wanted, how = selecting.searches_wanted(runs, searches, protocol), (protocol, seeds, settings or [], own | options)
    runs = selecting.search_again(runs, wanted, selecting.selection_plan(runs, *how), console)
    plan = selecting.selection_plan(runs, *how)
    print_result(selecting.select_with_progress(plan, out, False, console), selecting.show_selection, as_json)


@partial(with_config_options, defaults=FIT)
def fit(
    images: Annotated[
        str | None, typer.Argument(metavar="[DATA]", help="As --data; the path of a folder means the images in it.")
    ] = None,
    *,
    budget: Annotated[
        str, typer.Option(metavar="TIME", help="Time for everything: 90s, 30m, 2h. [30m]", show_default=False)
    ] = "30m",
    max_params: Annotated[str | None, typer.Option(help="Most parameters of the network, such as 1M. [any]")] = None,
    max_madds: Annotated[str | None, typer.Option(help="Most multiply-adds for one image, such as 50M. [any]")] = None,
    max_latency: Annotated[
        str | None, typer.Option(help="Longest time for one image on this machine, such as 5ms. [any]")
    ] = None,
    test: Annotated[
        str | None, typer.Option(help="Test images, as --data. [those of the data, or a fifth of the images]")
    ] = None,
    compare: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=1000,
            metavar="SEEDS",
            help="Afterwards train the model and its best rival with so many seeds each, for equal time. [-]",
        ),
    ] = None,
    class_weights: Annotated[
        str | None,
        typer.Option(
            metavar="balanced|NUMBERS",
            help="Weights of the classes in the loss: balanced lets unequal classes count alike. [all are 1]",
        ),
    ] = None,
    start_from: Annotated[
        Path | None, typer.Option(help="Trained model that competes too, and begins with its weights. [none]")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="PART.KNOB=VALUE",
            help="Set a knob of the trainings (weights.lr=0.1, augmentation.flip=false, task.label_smoothing=0.1) "
            "or of the search (arch_optimizer.lr=0.1). Repeatable. [chosen]",
        ),
    ] = None,
    target: Annotated[
        Path | None,
        typer.Option(
            "--model", metavar="MODEL", help="Write the model here too: a folder, or FILE.onnx or FILE.pt2. [-]"
        ),
    ] = None,
    callback: Callbacks = None,
    tensorboard: TensorBoard = False,
    out: _Out = None,
    as_json: AsJson = False,
    **options: Any,
) -> None:
    """Make a model from images: search a cell, select among it and known networks, train the best one, and test it.

    Images that train nothing choose, within the time; the test images choose nothing.
    """
    import shlex
    import sys

    from archgrad.cli.console import print_result, say_loading
    from archgrad.parts.knobs import parse_setting

    if images is not None and options.get("data") is not None:
        raise UserError(f"the data is given twice, as {images[:100]!r} and by --data; leave one of them out.")
    if out is not None and out.suffix in (".onnx", ".pt2"):
        raise UserError(f"-o is {str(out)[:150]!r}, but it names the run directory; write the model with --model FILE.")
    console = say_loading(as_json)
    from archgrad.cli.fit import fit_with_progress, show_fit

    knobs = [*([] if class_weights is None else [f"task.class_weights={class_weights}"]), *(settings or [])]
    limits: dict[str, Any] = {"max_params": max_params, "max_madds": max_madds, "max_latency": max_latency}
    own = {
        "budget": budget, "test": test, "target": target, "compare": compare, "start_from": start_from,
        "callback": callback_names(callback, tensorboard),
        "settings": dict(map(parse_setting, knobs)), "command": shlex.join(["archgrad", *sys.argv[1:]]),
    }  # fmt: skip
    given = {name: value for name, value in {**options, **own, **limits}.items() if value is not None}
    given = {"data": images or "digits", **given}
    print_result(fit_with_progress(given, None, out, console), show_fit, as_json)


@partial(with_config_options, defaults={"workers": "as before"})
def resume(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Run directory of anything that is not finished.")],
    *,
    as_json: AsJson = False,
    **options: Any,
) -> None:
    """Continue a search, a training, a selection, a fit or a study that was stopped or killed, to the same result."""
    from archgrad.cli.console import say_loading
    from archgrad.system.run_kind import read_kind

    kind = read_kind(folder)
    console = say_loading(as_json)
    from archgrad.cli.resume import RESUMED
    from archgrad.resuming import check_given

    given = {name: value for name, value in options.items() if value is not None}
    check_given(kind, given)
    RESUMED[kind](folder, given, console, as_json)


@partial(with_config_options, defaults=STUDY)
def compare(
    study: Annotated[
        Path | None,
        typer.Argument(
            metavar="[STUDY|FILE.toml]", help="Folder of a study to continue, or a file that describes one."
        ),
    ] = None,
    *,
    methods: Annotated[
        str | None,
        typer.Option(metavar="NAME,NAME", help="Methods to compare (see `archgrad list methods`, `… blackbox`)."),
    ] = None,
    without: Annotated[
        str | None, typer.Option(metavar="NAME,NAME", help="Variants that leave a begun study; their runs are kept.")
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(metavar="N|A-B,C", help="Number of seeds, from 0 on, or the seeds themselves. [3]")
    ] = None,
    spaces: Annotated[
        str | None, typer.Option(metavar="NAME,NAME", help="Search spaces (see `archgrad list spaces`). [nasbench201]")
    ] = None,
    data: Annotated[
        str | None, typer.Option(metavar="NAME,NAME", help="Data (see `archgrad list data`). [digits]")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder of a new study.")] = None,
    measure: Annotated[
        str | None, typer.Option(help="Measure to compare by. [accuracy in a table on the searched data, or held-out]")
    ] = None,
    table: Annotated[
        str | None, typer.Option(metavar="md|latex|csv|json", help="Print only the tables, in this format. [a report]")
    ] = None,
    no_run: Annotated[
        bool,
        typer.Option("--no-run", help="Compute nothing: report what is finished, also while a study is computed."),
    ] = False,
    engine: Annotated[
        str,
        typer.Option(metavar="local|ray|slurm", help="Where the runs are computed. [local]", show_default=False),
    ] = "local",
    processes: Annotated[
        int | None, typer.Option(min=1, max=1024, help="Local runs at once. [as many as there are cores for]")
    ] = None,
    address: Annotated[
        str | None, typer.Option(metavar="HOST:PORT|auto", help="Ray cluster. [a new one on this machine]")
    ] = None,
    partition: Annotated[str | None, typer.Option(help="Partition of Slurm. [its own default]")] = None,
    minutes: Annotated[
        int | None, typer.Option(min=5, help="Time limit of a Slurm job, which then goes on in a new one. [60]")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PART.KNOB=VALUE", help="Set a knob of all variants. Repeatable. [published]"),
    ] = None,
    **options: Any,
) -> None:
    """Compare methods over several seeds: run what is missing, then say which differences are real.

    Finished runs are never repeated; interrupted ones go on where they stopped. More seeds or methods may be added
    later.
    """
    from archgrad.cli.console import errors, results, say
    from archgrad.parts.knobs import parse_setting

    say("loading PyTorch", errors())
    from archgrad.cli.compare import StudyProgress, begun_study, plan_of, show_study
    from archgrad.cli.vote import is_vote, show_vote, vote_content
    from archgrad.errors import look_up
    from archgrad.studies.plan import split_names
    from archgrad.studies.study import check_variants, run_study
    from archgrad.studies.tables import FORMATS

    if table is not None:
        look_up("table format", table, FORMATS)

    common = {name: value for name, value in options.items() if value is not None}
    common |= {"settings": dict(map(parse_setting, settings))} if settings else {}
    request = {"methods": methods, "seeds": seeds, "spaces": spaces, "data": data, "common": common}
    dropped = split_names("without", without or "")
    if no_run:
        show_study(begun_study(study, out, {**request, "without": dropped}), measure, table, results())
        return
    folder, plan = plan_of(study, out, request)
    wanted = {"processes": processes, "address": address, "partition": partition, "minutes": minutes}
    given = {name: value for name, value in wanted.items() if value is not None}
    with StudyProgress(errors()) as watch:
        done = run_study(folder, plan, engine, given, watch, lambda text: say(text, errors()), dropped)
    show_study(done, measure, table, results())
    check_variants(done)
    if is_vote(done) and table is None:
        say(show_vote(vote_content([folder], folder)), results())
