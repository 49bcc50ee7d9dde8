"""How to continue a workflow that a signal has stopped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from archgrad.errors import SearchInterrupted

__all__ = ["continued_in"]


@contextmanager
def continued_in(folder: Path | None) -> Iterator[None]:
    """Let the message about a stopped part name the folder of the whole, which is what must be continued."""
    try:
        yield
    except SearchInterrupted as stop:
        if folder is None:
            raise
        place = str(stop).partition(";")[0]
        raise SearchInterrupted(f"{place}; continue with `archgrad resume {folder}`.", stop.signal) from stop
