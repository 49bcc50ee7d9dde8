"""The commands that show runs in a browser; importing them stays fast."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["report", "watch"]


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
