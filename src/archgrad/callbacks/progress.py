"""Progress of a search, a training, or of reading a large file: short lines, and a bar below them on a terminal."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from archgrad.callbacks import Callback, DecisionProgress, Record, SearchView, StageStart
from archgrad.diagnostics.records import decided_share, number_in
from archgrad.distributed.environment import is_silent
from archgrad.errors import escaped
from archgrad.system.amounts import counted
from archgrad.tasks import MetricInfo

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

__all__ = ["Display", "SearchProgress", "epoch_numbers", "reading_progress"]

_log = logging.getLogger("archgrad")

_ENOUGH = 4
"""The number of steps before the first estimate of the time."""
_FEWEST_IMAGES = 2000
"""So many images are read long enough for a line about it."""


def _say(text: str, console: Console) -> None:
    """Print text without markup, emoji or highlighting, and with control characters escaped."""
    console.print(escaped(text), markup=False, emoji=False, highlight=False, soft_wrap=True)


class Whole(Protocol):
    """What a search or a training is a part of."""

    def left_in_all(self, part: float) -> str:
        """Say how much time is left of the whole, if its part takes so many seconds more."""


class Display:
    """Where a search in Python shows its progress: a terminal or a notebook; nowhere else, unless it is told to.

    ``callbacks`` show the search, and :meth:`tell` prints a line about its preparation.
    """

    def __init__(self, wanted: bool | None = None, shows_cell: bool = True) -> None:
        shown = (sys.stderr.isatty() or "ipykernel" in sys.modules) if wanted is None else wanted
        self.callbacks: tuple[SearchProgress, ...] = ()
        if shown and not is_silent():
            from rich.console import Console

            console = Console(stderr=True, soft_wrap=True, highlight=False, emoji=False)
            self.callbacks = (SearchProgress(console, shows_cell),)

    def count_down(self, whole: Whole) -> None:
        """Show the time left of the ``whole`` beside that of its parts."""
        for one in self.callbacks:
            one.count_down(whole)

    def tell(self, text: str) -> None:
        """Print a line, or log it if nothing is shown."""
        for one in self.callbacks:
            _say(text, one.console)
        if not self.callbacks:
            _log.info("%s", text)

    def close(self) -> None:
        """Stop the display."""
        for one in self.callbacks:
            one.close()


class SearchProgress(Callback):
    """Print one short line per epoch, the cell when it changes, stages, decisions, and why a search was stopped.

    On a terminal a bar below the lines has the steps and the time left. ``shows_cell`` is False where only the result
    matters, as in a training, whose cell is given.
    """

    only_writes = True

    def __init__(self, console: Console, shows_cell: bool = True) -> None:
        self.console, self.shows_cell = console, shows_cell
        self._bar: Progress | None = None
        self._stage, self._cell = "", ""
        self._whole: Whole | None = None

    def count_down(self, whole: Whole) -> None:
        """Show with the time left of each part that of the ``whole``."""
        self._whole = whole

    def on_stage_start(self, stage: StageStart) -> None:
        """Say which stage begins, with the number of its cells and of the choices on each edge."""
        blocks = stage.space.blocks
        cells, choices = sum(block.cells for block in blocks), max(block.shape[1] for block in blocks)
        self._stage = f" in stage {stage.number} of {stage.stages}"
        self._print(
            f"stage {stage.number} of {stage.stages}: {counted(cells, 'cell')}, up to {choices} choices on each edge"
        )

    def on_search_start(self, search: SearchView) -> None:
        """Say how far α may move, and where a resumed search continues; open the bar of a terminal."""
        self._start_clock(search)
        if search.budget_line and self.shows_cell:
            self._print(search.budget_line)
        if search.index and not search.complete:
            self._print(f"resuming at epoch {search.epoch + 1}, step {search.step + 1}")
        if self.console.is_terminal:
            from rich.progress import BarColumn, Progress, TextColumn

            columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[left]}")
            self._bar = Progress(*columns, console=self.console, refresh_per_second=4, transient=True)
            self._bar.add_task("", total=search.epochs * search.steps, left="")
            self._move_bar(search)
            self._bar.start()

    def on_go_back(self, search: SearchView) -> None:
        """Measure the time from here on."""
        self._start_clock(search)

    def on_step_end(self, search: SearchView, means: Mapping[str, float]) -> None:
        """Move the bar; without one, say once how long the search will take."""
        done = search.index - self._first
        if done == 1:  # slower than the others: PyTorch allocates buffers and chooses kernels
            self._began = time.monotonic()
        if self._bar is not None:
            self._move_bar(search)
        elif done == _ENOUGH and not search.complete:
            epochs, steps = counted(search.epochs, "epoch"), counted(search.steps, "step")
            self._print(f"about {self._left(search)}: {epochs} of {steps}")

    def on_decision(self, search: SearchView, decision: DecisionProgress) -> None:
        """Print the decision."""
        self._print(f"decision {decision.done}/{decision.total}: {decision.what}")

    def on_epoch_end(self, search: SearchView, record: Record) -> None:
        """Print the line of the epoch, and the cell if it is another one than before."""
        left = "" if search.complete else self._left(search)
        numbers = epoch_numbers(search.history, search.metric)
        self._print(f"epoch {record['epoch']}/{search.epochs}: {', '.join([*numbers, *([left] if left else [])])}")
        cell = _cell(record)
        if self.shows_cell and cell != self._cell:
            self._cell = cell
            self._print(f"  {cell}")

    def on_search_end(self, search: SearchView) -> None:
        """Say why a search was stopped."""
        self.close()
        if search.stopped is not None:
            self._print(search.stopped)

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _print(self, line: str) -> None:
        _say(line, self.console)

    def _start_clock(self, search: SearchView) -> None:
        self._first, self._began = search.index, time.monotonic()

    def _left(self, search: SearchView) -> str:
        """Say how much time is left, by the steps of this process after its first; nothing if there are none."""
        timed = search.index - self._first - 1
        if timed < 1:
            return ""
        steps = search.epochs * search.steps - search.index
        seconds = (time.monotonic() - self._began) / timed * steps
        left = f"{_time(seconds)} left{self._stage}"
        return f"{left} of this part, {self._whole.left_in_all(seconds)}" if self._whole else left

    def _move_bar(self, search: SearchView) -> None:
        if self._bar is not None:
            epoch = f"epoch {min(search.epoch + 1, search.epochs)}/{search.epochs}"
            left = self._left(search) or "estimating the time left"
            self._bar.update(self._bar.task_ids[0], completed=search.index, description=epoch, left=left)


def epoch_numbers(history: Sequence[Record], metric: MetricInfo) -> list[str]:
    """Return the numbers of the last epoch that matter: the main metric, and how decided the search is.

    The metric is that of held-out images, or else of those that train α or the weights. An accuracy of the current cell
    in a table is told too. Without a decision, as in a training, the loss and the best epoch are told.

    >>> record = {"train_loss": 1.5, "heldout_accuracy": 50.0, "skips": 1, "entropy": 0.7, "entropy_max": 1.4}
    >>> epoch_numbers([record], MetricInfo(unit="%"))
    ['held-out accuracy 50.00 %', 'decided 50 %', '1 skip']
    """
    record, titles = history[-1], {"heldout": "held-out", "arch": "α", "train": "training"}
    kind = next((kind for kind in titles if number_in(record, f"{kind}_{metric.name}") is not None), "")
    values = [value for one in history if (value := number_in(one, f"{kind}_{metric.name}")) is not None]
    numbers = [f"{titles[kind]} {metric.name} {metric.show(values[-1], digits=2)}"] if values else []
    share = decided_share(record)
    if share is not None:
        skips = [counted(record["skips"], "skip")] if "skips" in record else []
        found = [f"{value:.2f} % in the table" for name, value in record.items() if name.startswith("oracle_")]
        return [*numbers, f"decided {100 * share:.0f} %", *skips, *found[:1]]
    loss = number_in(record, "train_loss")
    best = [f"best {metric.show(max(values, key=lambda one: metric.gain(one, 0.0)), digits=2)}"] if values else []
    return [*([] if loss is None else [f"loss {loss:.3f}"]), *numbers, *best]


def _cell(record: Record) -> str:
    """Return the current cell, or say that the choices tie."""
    ties = f"{record['ties']} choices tie exactly" if "ties" in record else ""
    if record["genotype"] is None:
        return f"undecided: all {ties}"
    return f"{record['genotype']}{ties and f' (undecided: {ties})'}"


def _time(seconds: float) -> str:
    """Return hours, minutes and seconds, or days.

    >>> _time(75), _time(3675), _time(1e6)
    ('1:15', '1:01:15', '11.6 days')
    """
    if seconds >= 48 * 3600:
        return f"{seconds / 86400:,.1f} days"
    hours, minutes = divmod(int(seconds) // 60, 60)
    return f"{hours}:{minutes:02}:{int(seconds) % 60:02}" if hours else f"{minutes}:{int(seconds) % 60:02}"


@contextmanager
def reading_progress(
    console: Console, images: bool = False, cells: bool = False
) -> Iterator[Callable[[int, int], None]]:
    """Yield a function ``(done, total)`` that shows how much of a file or how many ``images`` are read, or cells timed.

    It shows a bar on a terminal, and a line for each tenth elsewhere, but none for few images.
    """
    what, told = "reading images" if images else "timing cells" if cells else "reading the table (only once)", -1

    def tell_tenths(done: int, total: int) -> None:
        nonlocal told
        tenth = 10 * done // total if total else 10
        if tenth > told and not (images and total < _FEWEST_IMAGES):
            told = tenth
            _say(f"{what}: {10 * tenth} % of {f'{total:,}' if images or cells else f'{total / 1e6:.1f} MB'}", console)

    if not console.is_terminal:
        yield tell_tenths
        return
    from rich.progress import Progress

    with Progress(console=console, transient=True) as bars:
        task = bars.add_task(what, total=None, visible=False)
        yield lambda done, total: bars.update(task, completed=done, total=total, visible=True)
