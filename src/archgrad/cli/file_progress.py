"""Progress of reading a large file: a bar on a terminal, a line for each tenth elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from archgrad.cli.console import say

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["reading_progress"]

_WHAT = "reading the table (only once)"


@contextmanager
def reading_progress(console: Console) -> Iterator[Callable[[int, int], None]]:
    """Yield a function ``(bytes_read, bytes_total)`` that shows the progress; its first call opens the display."""
    if not console.is_terminal:
        yield _Tenths(console)
        return
    from rich.progress import Progress

    with Progress(console=console, transient=True) as bars:
        task = bars.add_task(_WHAT, total=None, visible=False)
        yield lambda done, total: bars.update(task, completed=done, total=total, visible=True)


class _Tenths:
    """Print a line for each tenth of the file."""

    def __init__(self, console: Console) -> None:
        self.console, self._told = console, -1

    def __call__(self, done: int, total: int) -> None:
        tenth = 10 * done // total if total else 10
        if tenth > self._told:
            self._told = tenth
            say(f"{_WHAT}: {10 * tenth} % of {total / 1e6:.1f} MB", self.console)
