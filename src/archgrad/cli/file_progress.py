"""Progress of reading a large file: a bar on a terminal, a line for each tenth elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from archgrad.cli.console import say

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["reading_progress"]

_TABLE = "reading the table (only once)"
_FEWEST_IMAGES = 2000


@contextmanager
def reading_progress(console: Console, images: bool = False) -> Iterator[Callable[[int, int], None]]:
    """Yield a function ``(read, total)`` that shows the progress; its first call opens the display.

    It counts the bytes of a table, or ``images``; elsewhere than on a terminal, few images get no lines.
    """
    what = "reading images" if images else _TABLE
    if not console.is_terminal:
        yield _Tenths(console, what, images)
        return
    from rich.progress import Progress

    with Progress(console=console, transient=True) as bars:
        task = bars.add_task(what, total=None, visible=False)
        yield lambda done, total: bars.update(task, completed=done, total=total, visible=True)


class _Tenths:
    """Print a line for each tenth of the file or of the images."""

    def __init__(self, console: Console, what: str, images: bool) -> None:
        self.console, self.what, self.images, self._told = console, what, images, -1

    def __call__(self, done: int, total: int) -> None:
        tenth = 10 * done // total if total else 10
        if tenth > self._told and not (self.images and total < _FEWEST_IMAGES):
            self._told = tenth
            whole = f"{total:,}" if self.images else f"{total / 1e6:.1f} MB"
            say(f"{self.what}: {10 * tenth} % of {whole}", self.console)
