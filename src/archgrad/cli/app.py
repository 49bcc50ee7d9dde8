"""The program: its commands, and what it prints when one fails."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Annotated, Any

import typer

from archgrad.cli import run_commands as run
from archgrad.cli import show_commands as show
from archgrad.cli.options import GroupedCommand
from archgrad.distributed.environment import launched
from archgrad.errors import ArchgradError, ProcessLostError, SearchInterrupted, UserError

__all__ = ["app", "main"]

_STOPPED = 130
"""The exit code after Ctrl-C."""
_LONGEST_MESSAGE = 200
_UsageError: Any = typer.BadParameter.__base__
"""The errors of the command line that Typer finds."""

app = typer.Typer(
    name="archgrad",
    help="Stable differentiable neural architecture search.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def main() -> None:
    """Run the command; print the user's mistake as one sentence without a traceback, and exit with code 2."""
    from archgrad.cli.console import errors, log_to, never_fail_to_print

    never_fail_to_print()
    log_to(errors())
    code, sentence, lost = 0, "", False
    try:
        code = app(standalone_mode=False) or 0
    except SearchInterrupted as interruption:
        code, sentence = 128 + interruption.signal, str(interruption)
    except UserError as error:
        code, sentence = 2, f"error: {error}"
    except ArchgradError as error:
        code, sentence, lost = 1, f"error: {error}", isinstance(error, ProcessLostError)
    except _UsageError as error:
        if not error.message.startswith("Usage: "):
            error.message = str(UserError(error.message))[:_LONGEST_MESSAGE]
        error.show()
        code = 2
    except (MemoryError, RuntimeError) as error:
        if not _is_out_of_memory(error):
            raise
        code, sentence = (
            1,
            "error: the memory does not suffice; give --checkpoint-cells or smaller sizes (--channels, --cells, "
            "--batch-size).",
        )
    except (KeyboardInterrupt, typer.Abort):
        code = _STOPPED
    if code == _STOPPED and not sentence:
        sentence = "stopped."
    if sentence:
        _say_once(sentence, lost)
    sys.exit(code)


def _say_once(sentence: str, lost: bool) -> None:
    """Print an error; of several processes with the same one, only the first does."""
    from archgrad.cli.console import errors, say

    alone = True
    with suppress(UserError):  # the error may be about what torchrun says
        alone = launched() is None
    if alone:
        say(sentence, errors(always=True))
        return
    from archgrad.distributed.processes import say_once

    say_once(sentence, lambda text: say(text, errors(always=True)), lost)


def _is_out_of_memory(error: Exception) -> bool:
    """Tell whether memory is missing; PyTorch has no error of its own for that on a CPU."""
    return isinstance(error, MemoryError) or any(
        words in str(error) for words in ("can't allocate memory", "out of memory", "Cannot allocate memory")
    )


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


_COMMANDS = (
    run.search, run.resume, run.fit, run.train, run.select, run.compare, show.status, show.top, show.vote,
    show.inspect, show.list_, show.query, show.convert, show.measure_latency, show.cost, show.draw, show.plot,
    show.report, show.watch, show.export, show.predict,
)  # fmt: skip
for _command in _COMMANDS:
    app.command(_command.__name__.removesuffix("_").replace("_", "-"), cls=GroupedCommand)(_command)
