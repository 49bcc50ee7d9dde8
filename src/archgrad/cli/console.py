"""Consoles of the command: results go to standard output, everything else to standard error."""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Callable
from typing import Any

from rich.console import Console

from archgrad.distributed.environment import is_silent
from archgrad.errors import escaped

__all__ = ["errors", "log_to", "never_fail_to_print", "print_result", "results", "say", "say_loading"]


def results() -> Console:
    """Return the console for results; of several processes only the first one prints."""
    return Console(soft_wrap=True, highlight=False, emoji=False, quiet=is_silent())


def errors(always: bool = False) -> Console:
    """Return the console for progress, warnings and errors; ``always`` prints in any process."""
    return Console(stderr=True, soft_wrap=True, highlight=False, emoji=False, quiet=is_silent() and not always)


def say(text: str, console: Console | None = None) -> None:
    """Print text without markup, emoji or highlighting, and with control characters escaped."""
    (console or results()).print(escaped(text), markup=False, emoji=False, highlight=False, soft_wrap=True)


def say_loading(as_json: bool) -> Console:
    """Say that PyTorch is loading, which takes seconds; return the console for progress beside the result."""
    console = errors() if as_json else results()
    say("loading PyTorch", console)
    return console


def print_result(content: Any, show: Callable[[Any], str], as_json: bool) -> None:
    """Print a result as one JSON document, or as the text that ``show`` makes of it."""
    if is_silent():
        return
    if as_json:
        sys.stdout.write(json.dumps(content, indent=2) + "\n")
    else:
        say(show(content))


def never_fail_to_print() -> None:
    """Print ``?`` for each character that the terminal's encoding lacks."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def log_to(console: Console) -> None:
    """Print the library's log messages on the console, one line each."""

    class _Say(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            say(f"{record.levelname.lower()}: {record.getMessage()}", console)

    logger = logging.getLogger("archgrad")
    logger.handlers = [_Say()]
    logger.propagate = False
