"""The commands that compare many runs; importing them stays fast."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from archgrad.cli.options import STUDY, AsJson, with_config_options

__all__ = ["compare", "status", "top"]

_Study = Annotated[Path, typer.Argument(metavar="STUDY", help="Folder of a study.")]


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


def status(study: _Study) -> None:
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
