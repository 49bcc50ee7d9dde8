"""Consoles of the command: results go to standard output, everything else to standard error."""

from __future__ import annotations

import io
import json
import logging
import sys
from typing import Any

from rich.console import Console

__all__ = ["errors", "log_to", "never_fail_to_print", "print_json", "results", "say"]


def results() -> Console:
    """Return the console for results."""
    return Console(soft_wrap=True, highlight=False, emoji=False)


def errors() -> Console:
    """Return the console for progress, warnings and errors."""
    return Console(stderr=True, soft_wrap=True, highlight=False, emoji=False)


def say(text: str, console: Console | None = None) -> None:
    """Print text without markup, emoji or highlighting."""
    (console or results()).print(text, markup=False, emoji=False, highlight=False, soft_wrap=True)


def print_json(content: Any) -> None:
    """Print one JSON document."""
    sys.stdout.write(json.dumps(content, indent=2) + "\n")


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
