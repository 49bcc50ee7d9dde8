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
            metavar="DIR|FILE",
            help="The unpacked folder of NATS-Bench, NATS-tss-v1_0-3ffb9-simple, or a NAS-Bench-101 .tfrecord file.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="File to write; found are nasbench201/accuracy.csv and nasbench101/nasbench101.parquet in "
            "ARCHGRAD_DATA. [accuracy.csv, or nasbench101.parquet]",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write the accuracy table that --table reads from the official folder of NATS-Bench or file of NAS-Bench-101."""
    from archgrad.callbacks.progress import reading_progress
    from archgrad.cli.console import errors, print_result
    from archgrad.tables import convert_table

    out = out or Path("nasbench101.parquet" if source.suffix.lower() == ".tfrecord" else "accuracy.csv")
    with reading_progress(errors()) as progress:
        columns = convert_table(source, out, progress)
    print_result({"table": str(out), "columns": columns}, _show, as_json)


def _show(content: dict[str, Any]) -> str:
    columns = [f"  {name:<21} {count} cells" for name, count in content["columns"].items()]
    return "\n".join([content["table"], *columns])
