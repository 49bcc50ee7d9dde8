"""How to continue a workflow that a signal has stopped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from archgrad.errors import SearchInterrupted

__all__ = ["continued_in"]


@contextmanager
def continued_in(folder: Path | None, part: str = "") -> Iterator[None]:
    """Let the message about a stopped part name the part and the folder of the whole, which must be continued."""
    try:
        yield
    except SearchInterrupted as stop:
        if folder is None:
            raise
        place = str(stop).partition(";")[0]
        raise SearchInterrupted(f"{place}{part}; continue with `archgrad resume {folder}`.", stop.signal) from stop
