"""Showing a search while it runs: a live display on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from archgrad.cli.console import say
from archgrad.loop import DecisionMade, EpochFinished, Event, SearchFinished, SearchStarted, StageStarted, StepFinished

if TYPE_CHECKING:
    from rich.console import Console, Group
    from rich.live import Live

__all__ = ["LiveProgress", "PlainProgress", "progress_for"]

_SHOWN = {
    "train_loss": "loss",
    "train_accuracy": "accuracy",
    "valid_loss": "valid loss",
    "valid_accuracy": "valid accuracy",
    "heldout_accuracy": "held-out accuracy",
    "arch_loss": "α loss",
    "arch_accuracy": "α accuracy",
    "entropy": "entropy",
    "skips": "skips",
}
_FROM_TABLES = ("oracle_", "regret_")


def progress_for(console: Console) -> LiveProgress | PlainProgress:
    """Return the display that suits the console."""
    return LiveProgress(console) if console.is_terminal else PlainProgress(console)


class PlainProgress:
    """One line per epoch."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def __call__(self, event: Event) -> None:
        """Print what has happened."""
        if isinstance(event, StageStarted):
            self._print(_stage(event))
        elif isinstance(event, SearchStarted) and event.state.index:
            self._print(f"resuming at epoch {event.state.epoch + 1}, step {event.state.step + 1}")
        elif isinstance(event, DecisionMade):
            self._print(_decision(event))
        elif isinstance(event, EpochFinished):
            numbers = ", ".join(f"{name} {value}" for name, value in _numbers(event.record).items())
            self._print(f"epoch {event.record['epoch']}/{event.state.epochs}: {numbers}")
            self._print(f"  {event.record['genotype']}")
        elif isinstance(event, SearchFinished) and event.state.stopped is not None:
            self._print(event.state.stopped)

    def close(self) -> None:
        """Leave nothing behind."""

    def _print(self, line: str) -> None:
        say(line, self.console)


class LiveProgress:
    """Epoch and step bars, the numbers of this and the last epoch, the current cell and the time left."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._live: Live | None = None
        self._record: dict[str, Any] = {}
        self._clock = _Clock()

    def __call__(self, event: Event) -> None:
        """Redraw."""
        if isinstance(event, StageStarted):
            say(_stage(event), self.console)
        elif isinstance(event, SearchStarted):
            self._start(event)
        elif isinstance(event, DecisionMade):
            say(_decision(event), self.console)
        elif isinstance(event, EpochFinished):
            self._record = event.record
        elif isinstance(event, StepFinished) and self._live is not None:
            self._live.update(self._view(event))
        elif isinstance(event, SearchFinished):
            self.close()
            if event.state.stopped is not None:
                say(event.state.stopped, self.console)

    def close(self) -> None:
        """Give the terminal back."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _start(self, event: SearchStarted) -> None:
        from rich.live import Live

        self._clock.start(event.state.index)
        self._record = event.state.history[-1] if event.state.history else {}
        self._live = Live(console=self.console, refresh_per_second=4, transient=True)
        self._live.start()

    def _view(self, event: StepFinished) -> Group:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        state = event.state
        done, total = event.epoch * state.steps + event.step, state.epochs * state.steps
        left = self._clock.left(done, total)
        bars = Table.grid(padding=(0, 2))
        bars.add_row(f"epoch {event.epoch + 1}/{state.epochs}", ProgressBar(total, done, width=40), f"{left} left")
        bars.add_row("step", ProgressBar(state.steps, event.step, width=40), f"{event.step}/{state.steps}")
        numbers = Table.grid(padding=(0, 2))
        numbers.add_row("now", *_cells(event.means))
        numbers.add_row("last epoch", *_cells(self._record))
        return Group(bars, numbers, Text(self._record.get("genotype", ""), overflow="fold"))


def _stage(event: StageStarted) -> str:
    """Say which stage begins, how deep its supernet is and how much there is to choose from."""
    blocks = event.space.blocks
    cells = sum(block.cells for block in blocks)
    choices = max(block.shape[1] for block in blocks)
    return f"stage {event.number} of {event.stages}: {cells} cells, up to {choices} choices on each edge"


class _Clock:
    """Estimates the time left from the steps done in this process."""

    def start(self, index: int) -> None:
        self._first, self._began = index, time.monotonic()

    def left(self, done: int, total: int) -> str:
        taken = max(done - self._first, 1)
        seconds = int((time.monotonic() - self._began) / taken * (total - done))
        hours, minutes = divmod(seconds // 60, 60)
        return f"{hours}:{minutes:02}:{seconds % 60:02}" if hours else f"{minutes}:{seconds % 60:02}"


def _decision(event: DecisionMade) -> str:
    return f"decision {event.done}/{event.total}: {event.what}"


def _numbers(record: dict[str, Any]) -> dict[str, str]:
    """Return the numbers to show, under the names to show them by."""
    shown = {}
    looked_up = {name: name.replace("_", " ") for name in record if name.startswith(_FROM_TABLES)}
    for name, title in {**_SHOWN, **looked_up}.items():
        if name in record:
            value = record[name]
            percent = any(word in name for word in ("accuracy", *_FROM_TABLES))
            shown[title] = str(value) if isinstance(value, int) else f"{value:.2f} %" if percent else f"{value:.3f}"
    return shown


def _cells(record: dict[str, Any]) -> list[str]:
    return [f"{name} {value}" for name, value in _numbers(record).items()]
