"""The command that writes the table of a benchmark from its official file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from archgrad.cli.options import AsJson

__all__ = ["convert"]


def convert(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="A .tfrecord file of NAS-Bench-101.",
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            help="File to write; searches find nasbench101/nasbench101.parquet in ARCHGRAD_DATA.",
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
    print_result({"table": str(out), "columns": columns}, _show, as_json)


def _show(content: dict[str, Any]) -> str:
    columns = [f"  {name:<21} {count} cells" for name, count in content["columns"].items()]
    return "\n".join([content["table"], *columns])
