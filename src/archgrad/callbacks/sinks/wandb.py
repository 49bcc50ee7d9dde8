"""Records for Weights & Biases."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from archgrad.callbacks.search import Record
from archgrad.callbacks.sinks.base import Sink, Writer, import_tool, numbers_of, words_of

__all__ = ["WandB"]


@dataclass(frozen=True)
class WandB(Sink):
    """Write an offline run of Weights & Biases into ``wandb/``; send it with ``wandb sync``.

    Nothing leaves the machine before that. A resumed search adds an offline run with all epochs: send the newest.
    """

    kind: ClassVar[str] = "wandb"

    project: str = "archgrad"

    def open(self, folder: Path) -> Writer:
        """Return the writer of a new offline run."""
        tool = import_tool("wandb", "wandb")
        quiet = tool.Settings(silent=True, console="off", disable_git=True, x_disable_stats=True, x_disable_meta=True)
        place = folder.resolve()
        run = tool.init(
            mode="offline", dir=str(place), project=self.project, name=place.name, settings=quiet, reinit="create_new"
        )
        return _OfflineRun(run)


@dataclass
class _OfflineRun:
    run: Any

    def write(self, record: Record) -> None:
        self.run.log(numbers_of(record) | words_of(record), step=record["epoch"])

    def close(self) -> None:
        self.run.finish()
