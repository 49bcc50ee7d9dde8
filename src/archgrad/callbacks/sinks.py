"""Sinks: callbacks that write the records of a search for other tools."""

from __future__ import annotations

import csv
import io
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from archgrad.callbacks.base import Callback, StageStart
from archgrad.callbacks.search import Record, SearchView
from archgrad.errors import UserError
from archgrad.system.files import make_folder, write_text

__all__ = ["CSVFile", "Sink", "TensorBoard", "WandB", "import_tool", "numbers_of", "words_of"]


@dataclass(frozen=True)
class Sink(Callback, ABC):
    """Write every epoch's record for another tool, into ``folder`` or into the run directory.

    A resumed search writes all its epochs anew, so that the tool shows each once, whatever a killed process wrote. Each
    stage of a search in stages writes into its own folder.
    """

    only_writes: ClassVar[bool] = True

    folder: str | None = None
    _opened: list[Any] = field(default_factory=list, init=False, repr=False, compare=False)
    _stage: list[str] = field(default_factory=list, init=False, repr=False, compare=False)

    @abstractmethod
    def open(self, folder: Path) -> Any:
        """Return what the tool writes with into ``folder``; it replaces what an earlier process wrote there."""

    @abstractmethod
    def write(self, opened: Any, record: Record) -> None:
        """Write the record of an epoch, so that it survives a kill."""

    def close(self, opened: Any) -> None:
        """Write what is left and release everything."""

    def on_stage_start(self, stage: StageStart) -> None:
        """Remember the folder of the stage."""
        self._stage[:] = [f"stage-{stage.number}"]

    def on_search_start(self, search: SearchView) -> None:
        """Open the tool, and write the epochs that are done."""
        self._close()
        self._opened.append(self.open(self._place(search)))
        for record in search.history:
            self.write(self._opened[0], dict(record))

    def on_go_back(self, search: SearchView) -> None:
        """Drop the epochs after the one that the search went back to."""
        self.on_search_start(search)

    def on_epoch_end(self, search: SearchView, record: Record) -> None:
        """Write the record."""
        for opened in self._opened:
            self.write(opened, record)

    def on_search_end(self, search: SearchView) -> None:
        """Close the tool."""
        self._close()
        self._stage.clear()

    def _close(self) -> None:
        while self._opened:
            self.close(self._opened.pop())

    def _place(self, search: SearchView) -> Path:
        name, folder = type(self).__name__, search.folder if self.folder is None else Path(self.folder, *self._stage)
        if folder is None:
            raise UserError(
                f"{name} has no folder to write to: the search has no run directory. Search with out=DIR, or give "
                f"{name}(folder=DIR)."
            )
        try:
            make_folder(folder)
        except OSError as error:
            raise UserError(
                f"{name} cannot make the folder {folder} ({error.strerror or error}); choose another folder."
            ) from error
        return folder


def import_tool(module: str, extra: str) -> Any:
    """Import an optional package; say how to install it if it is missing."""
    try:
        return import_module(module)
    except ImportError as error:
        raise UserError(
            f"the package {module.partition('.')[0]} is not installed ({error}); install it with "
            f"`pip install 'archgrad[{extra}]'`."
        ) from error


def numbers_of(record: Record) -> dict[str, float]:
    """Return the finite numbers of a record but the epoch.

    >>> numbers_of({"epoch": 1, "train_loss": 0.5, "genotype": "…", "lambda_max": float("nan")})
    {'train_loss': 0.5}
    """
    numbers = {name: value for name, value in record.items() if isinstance(value, int | float) and name != "epoch"}
    return {name: float(value) for name, value in numbers.items() if math.isfinite(value)}


def words_of(record: Record) -> dict[str, str]:
    """Return the texts of a record, such as its genotype and diagnosis."""
    return {name: value for name, value in record.items() if isinstance(value, str)}


@dataclass(frozen=True)
class CSVFile(Sink):
    """Write ``metrics.csv``, with one row for each epoch and one column for each measure."""

    kind: ClassVar[str] = "csv"

    def open(self, folder: Path) -> tuple[Path, list[Record]]:
        """Return the path of the file, and its records so far."""
        return folder / "metrics.csv", []

    def write(self, opened: tuple[Path, list[Record]], record: Record) -> None:
        """Write the whole file anew, because a new measure is a new column."""
        path, records = opened
        records.append(record)
        text = io.StringIO()
        columns = list(dict.fromkeys(name for one in records for name in one))
        table = csv.DictWriter(text, columns, lineterminator="\n")
        table.writeheader()
        table.writerows(records)
        write_text(path, text.getvalue())


@dataclass(frozen=True)
class TensorBoard(Sink):
    """Write event files into ``tensorboard/``; look at them with ``tensorboard --logdir DIR``."""

    kind: ClassVar[str] = "tensorboard"

    def open(self, folder: Path) -> Any:
        """Return a writer of events; TensorBoard ignores what earlier files say of epochs from ``purge_step`` on."""
        import_tool("tensorboard", "tensorboard")
        summary = import_tool("torch.utils.tensorboard", "tensorboard")
        return summary.SummaryWriter(str(folder / "tensorboard"), purge_step=1)

    def write(self, opened: Any, record: Record) -> None:
        """Write numbers as scalars and words as texts."""
        for name, value in numbers_of(record).items():
            opened.add_scalar(name, value, record["epoch"])
        for name, text in words_of(record).items():
            opened.add_text(name, text, record["epoch"])
        opened.flush()

    def close(self, opened: Any) -> None:
        """Close the event file."""
        opened.close()


@dataclass(frozen=True)
class WandB(Sink):
    """Write an offline run of Weights & Biases into ``wandb/``; send it with ``wandb sync``.

    Nothing leaves the machine before that. A resumed search adds an offline run with all epochs: send the newest.
    """

    kind: ClassVar[str] = "wandb"

    project: str = "archgrad"

    def open(self, folder: Path) -> Any:
        """Return a new offline run."""
        tool, place = import_tool("wandb", "wandb"), folder.resolve()
        quiet = tool.Settings(silent=True, console="off", disable_git=True, x_disable_stats=True, x_disable_meta=True)
        return tool.init(
            mode="offline", dir=str(place), project=self.project, name=place.name, settings=quiet, reinit="create_new"
        )

    def write(self, opened: Any, record: Record) -> None:
        """Log numbers and words."""
        opened.log(numbers_of(record) | words_of(record), step=record["epoch"])

    def close(self, opened: Any) -> None:
        """Finish the run."""
        opened.finish()
