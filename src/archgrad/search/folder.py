"""The run directory: what a search leaves on disk."""

from __future__ import annotations

import json
from pathlib import Path

from archgrad.errors import UserError
from archgrad.files import write_text
from archgrad.search.checkpoint import Checkpoints
from archgrad.search.events import EpochFinished, Event, SearchFinished, SearchStarted
from archgrad.search.state import SearchState

__all__ = ["RunFolder"]


class RunFolder:
    """Writes ``metrics.jsonl``, ``genotype.json``, ``summary.json`` and the checkpoints of one search.

    It listens to the search's events. Every file is replaced whole, and on a resume rebuilt from the checkpoint, so
    the folder never shows an epoch twice.
    """

    def __init__(self, path: Path, description: dict[str, str]) -> None:
        self.path = path
        self.description = description
        self.checkpoints = Checkpoints(path)

    def claim(self) -> None:
        """Refuse a folder that holds another search already."""
        if self.path.exists() and not self.path.is_dir():
            raise UserError(f"{self.path} is a file; choose a folder for the run.")
        if self.checkpoints.exist():
            raise UserError(
                f"{self.path} holds a search already; continue it with `archgrad resume {self.path}` "
                f"or choose another folder."
            )

    def __call__(self, event: Event) -> None:
        """Write what the event changes."""
        if isinstance(event, SearchStarted):
            self._write_metrics(event.state)
            if event.state.index == 0:
                self.save(event.state)
        elif isinstance(event, EpochFinished):
            self._write_metrics(event.state)
            write_text(self.path / "genotype.json", event.state.genotype.to_json() + "\n")
            self.save(event.state)
        elif isinstance(event, SearchFinished):
            self._write_summary(event.state)

    def save(self, state: SearchState) -> None:
        """Write a checkpoint."""
        self.checkpoints.save(state.tensors(), self.description)

    def _write_metrics(self, state: SearchState) -> None:
        write_text(self.path / "metrics.jsonl", "".join(json.dumps(record) + "\n" for record in state.history))

    def _write_summary(self, state: SearchState) -> None:
        from archgrad import __version__

        summary = {
            "archgrad": __version__,
            **self.description,
            "epochs": state.epochs,
            "seconds": round(state.seconds, 3),
            "genotype": str(state.genotype),
            "last_epoch": state.history[-1],
        }
        write_text(self.path / "summary.json", json.dumps(summary, indent=2, ensure_ascii=False) + "\n")
