"""The base class of sinks."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Protocol

from archgrad.callbacks.base import Callback
from archgrad.callbacks.search import Record, Search
from archgrad.errors import UserError

__all__ = ["Sink", "Writer", "import_tool", "numbers_of", "words_of"]


class Writer(Protocol):
    """Writes records in the format of a tool."""

    def write(self, record: Record) -> None:
        """Write the record of an epoch, so that it survives a kill."""

    def close(self) -> None:
        """Write what is left and release everything."""


@dataclass(frozen=True)
class Sink(Callback, ABC):
    """Write every epoch's record for another tool, into ``folder`` or into the run directory.

    A resumed search writes all its epochs anew, so that the tool shows each once, whatever a killed process wrote. Each
    stage of a search in stages writes into its own folder.
    """

    only_writes: ClassVar[bool] = True

    folder: str | None = None
    _writers: list[Writer] = field(default_factory=list, init=False, repr=False, compare=False)

    @abstractmethod
    def open(self, folder: Path) -> Writer:
        """Return a writer into ``folder`` that replaces what an earlier process wrote there."""

    def on_search_start(self, search: Search) -> None:
        """Open the writer, and write the epochs that are done."""
        self._close()
        self._writers.append(self.open(self._place(search)))
        for record in search.history:
            self._writers[0].write(dict(record))

    def on_go_back(self, search: Search) -> None:
        """Drop the epochs after the one that the search went back to."""
        self.on_search_start(search)

    def on_epoch_end(self, search: Search, record: Record) -> None:
        """Write the record."""
        for writer in self._writers:
            writer.write(record)

    def on_search_end(self, search: Search) -> None:
        """Close the writer."""
        self._close()

    def _close(self) -> None:
        while self._writers:
            self._writers.pop().close()

    def _place(self, search: Search) -> Path:
        name = type(self).__name__
        if self.folder is None and search.folder is None:
            raise UserError(
                f"{name} has no folder to write to: the search has no run directory. Search with out=DIR, or give "
                f"{name}(folder=DIR)."
            )
        place = Path(self.folder) if self.folder is not None else Path(search.folder or "")
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(
                f"{name} cannot make the folder {place} ({error.strerror or error}); choose another folder."
            ) from error
        return place


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
