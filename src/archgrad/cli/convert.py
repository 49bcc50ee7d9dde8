"""The command that writes the CSV table from the official benchmark folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from archgrad.cli.options import AsJson

__all__ = ["convert"]


def convert(
    source: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="The unpacked folder of NATS-Bench, NATS-tss-v1_0-3ffb9-simple."),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="CSV file to write; ARCHGRAD_DATA/nasbench201/accuracy.csv is found.")
    ] = Path("accuracy.csv"),
    as_json: AsJson = False,
) -> None:
    """Write the accuracy table that --table reads from the official folder of NATS-Bench (once)."""
    from archgrad.cli.console import errors, print_result
    from archgrad.cli.progress import reading_progress
    from archgrad.tables import convert_table

    with reading_progress(errors()) as progress:
        columns = convert_table(source, out, progress)
    print_result({"table": str(out), "columns": columns}, _show, as_json)


def _show(content: dict[str, Any]) -> str:
    columns = [f"  {name:<21} {count} cells" for name, count in content["columns"].items()]
    return "\n".join([content["table"], *columns])
