"""Progress of a search and of reading a large file: a live display on a terminal, plain lines elsewhere."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from archgrad.callbacks import Callback, DecisionProgress, Record, SearchView, StageStart
from archgrad.diagnostics.records import decided_share
from archgrad.distributed.environment import is_silent
from archgrad.errors import escaped
from archgrad.system.amounts import counted
from archgrad.tasks import MetricInfo

if TYPE_CHECKING:
    from rich.console import Console, Group
    from rich.live import Live

__all__ = [
    "Display",
    "LiveProgress",
    "PlainProgress",
    "ScreenNumber",
    "progress_for",
    "reading_progress",
    "screen_numbers",
]

_log = logging.getLogger("archgrad")


def _say(text: str, console: Console) -> None:
    """Print text without markup, emoji or highlighting, and with control characters escaped."""
    console.print(escaped(text), markup=False, emoji=False, highlight=False, soft_wrap=True)


def progress_for(console: Console, shows_cell: bool = True) -> LiveProgress | PlainProgress:
    """Return the display that suits the console; ``shows_cell`` is False for a training, whose cell is given."""
    return (LiveProgress if console.is_terminal else PlainProgress)(console, shows_cell)


class Display:
    """Where a search in Python shows its progress: a terminal or a notebook; nowhere else, unless it is told to.

    ``callbacks`` show the search, and :meth:`tell` prints a line about its preparation.
    """

    def __init__(self, wanted: bool | None = None, shows_cell: bool = True) -> None:
        shown = (sys.stderr.isatty() or "ipykernel" in sys.modules) if wanted is None else wanted
        self._shown: LiveProgress | PlainProgress | None = None
        if shown and not is_silent():
            from rich.console import Console

            self._shown = progress_for(Console(stderr=True, soft_wrap=True, highlight=False, emoji=False), shows_cell)

    @property
    def callbacks(self) -> tuple[Callback, ...]:
        """The callback that shows the search; none if nothing is shown."""
        return () if self._shown is None else (self._shown,)

    def count_down(self, whole: object) -> None:
        """Show the time left of the ``whole``, which ``str`` tells, beside that of its parts."""
        if self._shown is not None:
            self._shown.count_down(whole)

    def tell(self, text: str) -> None:
        """Print a line, or log it if nothing is shown."""
        if self._shown is None:
            _log.info("%s", text)
        else:
            _say(text, self._shown.console)

    def close(self) -> None:
        """Stop the display."""
        if self._shown is not None:
            self._shown.close()


class _Progress(Callback):
    """What both displays print: stages, decisions, how far α may move, and why a search was stopped."""

    only_writes = True

    def __init__(self, console: Console, shows_cell: bool = True) -> None:
        self.console, self.shows_cell = console, shows_cell
        self._clock = _Clock()

    def on_stage_start(self, stage: StageStart) -> None:
        """Say which stage begins."""
        self._print(_stage(stage))
        self._clock.stage = f" in stage {stage.number} of {stage.stages}"

    def on_search_start(self, search: SearchView) -> None:
        """Say how far α may move, unless only the result matters."""
        self._clock.start(search.index)
        if search.budget_line and self.shows_cell:
            self._print(search.budget_line)

    def count_down(self, whole: object) -> None:
        """Show with the time left of each part that of the ``whole``, which ``str`` tells."""
        self._clock.whole = whole

    def on_decision(self, search: SearchView, decision: DecisionProgress) -> None:
        """Print the decision."""
        self._print(f"decision {decision.done}/{decision.total}: {decision.what}")

    def on_search_end(self, search: SearchView) -> None:
        """Say why a search was stopped."""
        self.close()
        if search.stopped is not None:
            self._print(search.stopped)

    def close(self) -> None:
        """Stop the display; plain lines need no clean-up."""

    def _print(self, line: str) -> None:
        _say(line, self.console)


class PlainProgress(_Progress):
    """Print the estimated time after a few steps, and two lines per epoch; explain each number once."""

    def __init__(self, console: Console, shows_cell: bool = True) -> None:
        super().__init__(console, shows_cell)
        self._explained: set[str] = set()

    def on_search_start(self, search: SearchView) -> None:
        """Say how far α may move, and where a resumed search continues."""
        super().on_search_start(search)
        if search.index and search.epoch < search.epochs:
            self._print(f"resuming at epoch {search.epoch + 1}, step {search.step + 1}")

    def on_step_end(self, search: SearchView, means: Mapping[str, float]) -> None:
        """Print the estimated time, once."""
        if estimate := self._clock.first_estimate(search):
            self._print(estimate)

    def on_epoch_end(self, search: SearchView, record: Record) -> None:
        """Print the numbers of the epoch and its cell."""
        numbers = screen_numbers(record)
        for one in numbers:
            if one.name not in self._explained:
                self._explained.add(one.name)
                self._print(f"  {one.name}: {one.meaning}")
        line = ", ".join(f"{one.name} {one.value}" for one in numbers)
        self._print(f"epoch {record['epoch']}/{search.epochs}: {line}")
        if self.shows_cell:
            self._print(f"  {_cell(record)}")


class LiveProgress(_Progress):
    """Show bars for epochs and steps, the time left, the numbers of this and the last epoch, and the current cell."""

    def __init__(self, console: Console, shows_cell: bool = True) -> None:
        super().__init__(console, shows_cell)
        self._live: Live | None = None
        self._record: dict[str, Any] = {}

    def on_search_start(self, search: SearchView) -> None:
        """Say how far α may move, and start the display."""
        from rich.live import Live

        super().on_search_start(search)
        self._record = search.history[-1] if search.history else {}
        self._live = Live(self._view(search, {}), console=self.console, refresh_per_second=4, transient=True)
        self._live.start(refresh=True)

    def on_epoch_end(self, search: SearchView, record: Record) -> None:
        """Keep the numbers of the epoch to show."""
        self._record = record

    def on_step_end(self, search: SearchView, means: Mapping[str, float]) -> None:
        """Update the display."""
        if self._live is not None:
            self._live.update(self._view(search, means))

    def close(self) -> None:
        """Stop the display."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _view(self, search: SearchView, means: Mapping[str, float]) -> Group:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        epoch, epochs, step, steps = search.epoch, search.epochs, search.step, search.steps
        done, total = search.index, epochs * steps
        bars = Table.grid(padding=(0, 2))
        left = self._clock.left(done, total)
        bars.add_row(f"epoch {min(epoch + 1, epochs)}/{epochs}", ProgressBar(total, done, width=40), left)
        bars.add_row("step", ProgressBar(steps, step, width=40), f"{step}/{steps}")
        records = (means, self._record)
        now, before = ({one.name: one for one in screen_numbers(record, search.metric)} for record in records)
        numbers = Table("", "now", "last epoch", "", box=None, padding=(0, 2, 0, 0), header_style="dim")
        for name, one in {**before, **now}.items():
            values = (told[name].value if name in told else "" for told in (now, before))
            numbers.add_row(Text(escaped(name)), *values, Text(one.meaning, style="dim"))
        cell = [Text(escaped(_cell(self._record)), overflow="fold")] if self.shows_cell else []
        return Group(bars, *([numbers] if before or now else []), *cell)


def _cell(record: dict[str, Any]) -> str:
    """Return the current cell, or say that the choices tie."""
    if not record:
        return ""
    ties = f"{record['ties']} choices tie exactly" if "ties" in record else ""
    if record["genotype"] is None:
        return f"undecided: all {ties}"
    return f"{record['genotype']}{ties and f' (undecided: {ties})'}"


def _stage(stage: StageStart) -> str:
    """Say which stage begins, with the number of its cells and of the choices on each edge."""
    blocks = stage.space.blocks
    cells = sum(block.cells for block in blocks)
    choices = max(block.shape[1] for block in blocks)
    return f"stage {stage.number} of {stage.stages}: {counted(cells, 'cell')}, up to {choices} choices on each edge"


_WARM = 1
"""The first steps are slower than the others: PyTorch allocates buffers and chooses kernels."""
_ENOUGH = 4
"""Number of steps before the first estimate."""


class _Clock:
    """Estimate the time left from the steps of this process after the first, or since the search went back."""

    stage = ""
    whole: object = ""

    @property
    def place(self) -> str:
        """The stage, and how much time is left in all."""
        return f"{self.stage} of this part, {self.whole}" if self.whole else self.stage

    def start(self, index: int) -> None:
        self._first, self._last, self._began, self._told = index, index, time.monotonic(), False

    def seconds_left(self, done: int, total: int) -> float | None:
        """Return the seconds that the remaining steps will take; None if too few steps are done."""
        if done < self._last:  # the search has gone back to an earlier epoch
            self._first, self._began = done, time.monotonic()
        self._last = done
        taken = done - self._first
        if taken == _WARM:
            self._began = time.monotonic()
        if taken <= _WARM:
            return None
        return (time.monotonic() - self._began) / (taken - _WARM) * (total - done)

    def left(self, done: int, total: int) -> str:
        seconds = self.seconds_left(done, total)
        return "estimating the time left" if seconds is None else f"{_time(seconds)} left{self.place}"

    def first_estimate(self, search: SearchView) -> str | None:
        """Say once, after a few steps, how long the search will take."""
        total = search.epochs * search.steps
        seconds = None if self._told else self.seconds_left(search.index, total)
        if seconds is None or search.index - self._first < min(_ENOUGH, total):
            return None
        self._told = True
        epochs, steps = counted(search.epochs, "epoch"), counted(search.steps, "step")
        return f"about {_time(seconds)} left{self.place}: {epochs} of {steps}"


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
def reading_progress(console: Console, images: bool = False) -> Iterator[Callable[[int, int], None]]:
    """Yield a function ``(read, total)`` that shows how much of a large file, or how many ``images``, are read.

    It shows a bar on a terminal, and a line for each tenth elsewhere; its first call opens the display.
    """
    what = "reading images" if images else "reading the table (only once)"
    if not console.is_terminal:
        yield _Tenths(console, what, images)
        return
    from rich.progress import Progress

    with Progress(console=console, transient=True) as bars:
        task = bars.add_task(what, total=None, visible=False)
        yield lambda done, total: bars.update(task, completed=done, total=total, visible=True)


_FEWEST_IMAGES = 2000


class _Tenths:
    """Print a line for each tenth of the bytes or images; few images get no lines."""

    def __init__(self, console: Console, what: str, images: bool) -> None:
        self.console, self.what, self.images, self._told = console, what, images, -1

    def __call__(self, done: int, total: int) -> None:
        tenth = 10 * done // total if total else 10
        if tenth > self._told and not (self.images and total < _FEWEST_IMAGES):
            self._told = tenth
            whole = f"{total:,}" if self.images else f"{total / 1e6:.1f} MB"
            _say(f"{self.what}: {10 * tenth} % of {whole}", self.console)


_WORDS = {
    "train_loss": ("loss", "on the images that train the weights"),
    "train_{}": ("training {}", "on the images that train the weights"),
    "arch_loss": ("α loss", "on the images that train the architecture α"),
    "arch_{}": ("α {}", "on the images that train the architecture α"),
    "heldout_{}": ("held-out {}", "on images that train no weights"),
    "decided": ("decided", "0 %: all operations are even, 100 %: one on each edge"),
    "skips": ("skip connections", "in the current cell"),
}
"""The names in a record, titles and meanings, in the order of the screen; braces stand for the main metric."""
_TABLES = {"200ep": "NAS-Bench-201", "12ep": "NAS-Bench-201", "108ep": "NAS-Bench-101"}


class ScreenNumber(NamedTuple):
    """A number on the screen: its name, its value with the unit, and its meaning."""

    name: str
    value: str
    meaning: str


def screen_numbers(record: Mapping[str, Any], metric: MetricInfo | None = None) -> list[ScreenNumber]:
    """Return the numbers of a record that a screen shows; ``metric`` is the main one, by default what the record says.

    >>> screen_numbers({"entropy": 0.7, "entropy_max": 1.4})
    [ScreenNumber(name='decided', value='50 %', meaning='0 %: all operations are even, 100 %: one on each edge')]
    """
    metric, share = metric or MetricInfo.of_record(record), decided_share(record)
    shown = {} if share is None else {"decided": f"{100 * share:.0f} %"}
    words = {name.format(metric.name): one for name, one in _WORDS.items()}
    found = [
        ScreenNumber(title.format(metric.name), shown.get(name) or _value(name, record[name], metric), meaning)
        for name, (title, meaning) in words.items()
        if name in shown or name in record
    ]
    return found + [_looked_up(name, record[name]) for name in record if name.startswith(("oracle_", "regret_"))]


def _value(name: str, value: float | None, metric: MetricInfo) -> str:
    """Return a number as a screen shows it: with the unit of its metric, or as a count or a loss."""
    if isinstance(value, int | None):
        return "unknown" if value is None else str(value)
    is_loss = metric.name == "loss" or not name.endswith(f"_{metric.name}")
    return f"{value:.3f}" if is_loss else metric.show(value, digits=2)


def _looked_up(name: str, value: float) -> ScreenNumber:
    """Return the accuracy or regret of the current cell in a table.

    >>> _looked_up("oracle_cifar10_test_200ep", 93.2).meaning
    'of this cell in the NAS-Bench-201 table (cifar10, test, 200ep)'
    """
    quantity, dataset, *rest = name.split("_")
    title = f"table {'accuracy' if quantity == 'oracle' else 'regret'} {' '.join([dataset, *rest[:-1]])}"
    table = _TABLES.get(rest[-1], "benchmark's") if rest else "benchmark's"
    return ScreenNumber(title, f"{value:.2f} %", f"of this cell in the {table} table ({', '.join([dataset, *rest])})")
