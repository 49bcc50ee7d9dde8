"""The command that writes the CSV table from an official benchmark file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from archgrad.cli.options import AsJson

__all__ = ["convert"]


def convert(
    source: Annotated[
        Path,
        typer.Argument(metavar="FILE|DIR", help="A NAS-Bench-201 .pth file, a NATS-Bench .pbz2 file or its folder."),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="CSV file to write; ARCHGRAD_DATA/nasbench201/accuracy.csv is found.")
    ] = Path("accuracy.csv"),
    as_json: AsJson = False,
) -> None:
    """Write the accuracy table that --table reads from an official NAS-Bench-201 or NATS-Bench file (once)."""
    from archgrad.cli.console import errors, print_result
    from archgrad.cli.progress import reading_progress
    from archgrad.tables import convert_table

    with reading_progress(errors()) as progress:
        columns = convert_table(source, out, progress)
    print_result({"table": str(out), "columns": columns}, _show, as_json)


def _show(content: dict[str, Any]) -> str:
    columns = [f"  {name:<21} {count} cells" for name, count in content["columns"].items()]
    return "\n".join([content["table"], *columns])
