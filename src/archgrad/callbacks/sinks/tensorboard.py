"""Records for TensorBoard."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from archgrad.callbacks.search import Record
from archgrad.callbacks.sinks.base import Sink, Writer, import_tool, numbers_of, words_of

__all__ = ["TensorBoard"]


@dataclass(frozen=True)
class TensorBoard(Sink):
    """Write event files into ``tensorboard/``; look at them with ``tensorboard --logdir DIR``."""

    kind: ClassVar[str] = "tensorboard"

    def open(self, folder: Path) -> Writer:
        """Return the writer; TensorBoard ignores what earlier event files say of epochs from ``purge_step`` on."""
        import_tool("tensorboard", "tensorboard")
        summary = import_tool("torch.utils.tensorboard", "tensorboard")
        return _Events(summary.SummaryWriter(str(folder / "tensorboard"), purge_step=1))


@dataclass
class _Events:
    summary: Any

    def write(self, record: Record) -> None:
        for name, value in numbers_of(record).items():
            self.summary.add_scalar(name, value, record["epoch"])
        for name, text in words_of(record).items():
            self.summary.add_text(name, text, record["epoch"])
        self.summary.flush()

    def close(self) -> None:
        self.summary.close()
