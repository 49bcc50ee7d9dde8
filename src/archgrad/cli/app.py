"""The program: its commands, and what it prints when one fails."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from archgrad.cli.commands import draw, inspect, list_, plot, query, resume, search
from archgrad.errors import ArchgradError, SearchInterrupted, UserError

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


def main() -> None:
    """Run the command; print the user's mistake as one sentence without a traceback, and exit with code 2."""
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


for _command in (search, resume, inspect, list_, query, draw, plot):
    app.command(_command.__name__.removesuffix("_"))(_command)
