"""The run directory: what a search leaves on disk."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from archgrad.errors import UserError
from archgrad.files import write_text
from archgrad.loop.checkpoint import Checkpoints
from archgrad.loop.events import EpochFinished, Event, Record, SearchFinished, SearchStarted
from archgrad.loop.state import SearchState

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["RunFolder"]

_METRICS, _GENOTYPE, _SUMMARY = "metrics.jsonl", "genotype.json", "summary.json"


class RunFolder:
    """Writes ``metrics.jsonl``, ``genotype.json``, ``summary.json`` and the checkpoints of one search.

    ``files`` are texts to keep beside them, by name. It listens to the search's events. Every file is replaced whole,
    and on a resume rebuilt from the checkpoint, so the folder never shows an epoch twice.
    """

    def __init__(self, path: Path, description: dict[str, str], files: Mapping[str, str] | None = None) -> None:
        self.path = path
        self.description = description
        self.files = dict(files or {})
        self.checkpoints = Checkpoints(path)

    @contextmanager
    def opened(self, resume: bool) -> Iterator[dict[str, Any] | None]:
        """Keep the folder for this process; yield the content of the checkpoint to resume from, None to begin."""
        with self._writing():
            if resume and not self.path.is_dir():
                raise UserError(f"there is no run directory {self.path} to resume; start a new search.")
            if self.path.exists() and not self.path.is_dir():
                raise UserError(f"{self.path} is a file; choose a folder for the run.")
            self.path.mkdir(parents=True, exist_ok=True)
        with self._locked():
            fresh = not resume or self._is_fresh()
            if fresh:
                self._claim()
            yield None if fresh else self.checkpoints.load(self.description)

    def _claim(self) -> None:
        """Make the folder this search's own; refuse one that holds another search or anything else."""
        if self.checkpoints.exist():
            raise UserError(
                f"{self.path} holds a search already; continue it with `archgrad resume {self.path}` "
                f"or choose another folder."
            )
        with self._writing():
            found = sorted(entry.name for entry in self.path.iterdir())
            if found and not self._is_fresh():
                raise UserError(
                    f"{self.path} is not empty: it holds {', '.join(found[:3])}{', …' if len(found) > 3 else ''}; "
                    f"choose a new or an empty folder for the run."
                )
            write_text(self.path / _METRICS, "")
            for name, text in self.files.items():
                write_text(self.path / name, text)

    def _is_fresh(self) -> bool:
        """Tell whether a search was killed here before its first checkpoint, so that it has nothing to lose."""
        with self._writing():
            metrics = self.path / _METRICS
            return not self.checkpoints.exist() and metrics.is_file() and metrics.stat().st_size == 0

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other processes out of the folder; the lock ends with the process, however it ends."""
        if fcntl is None:
            yield
            return
        with self._writing():
            descriptor = os.open(self.path, os.O_RDONLY)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UserError(
                    f"another search is running in {self.path}; wait for its end or choose another folder."
                ) from None
            except OSError:  # some network file systems know no locks
                pass
            yield
        finally:
            os.close(descriptor)

    def __call__(self, event: Event) -> None:
        """Write what the event changes."""
        if isinstance(event, SearchStarted):
            self._rebuild(event.state)
        elif isinstance(event, EpochFinished):
            self._write_progress(event.state)
            self.save(event.state)
        elif isinstance(event, SearchFinished):
            self._write_summary(event.state)

    def save(self, state: SearchState) -> None:
        """Write a checkpoint."""
        with self._writing():
            self.checkpoints.save(state.tensors(), self.description)

    def _rebuild(self, state: SearchState) -> None:
        """Make the folder show what the state knows, whatever a killed process left in it."""
        with self._writing():
            for name in (self.checkpoints.current.name, _METRICS, _GENOTYPE, _SUMMARY):
                for part in self.path.glob(f".{name}.*.part"):
                    part.unlink(missing_ok=True)
            if state.epoch < state.epochs:
                (self.path / _SUMMARY).unlink(missing_ok=True)
        if not self.checkpoints.exist():
            self.save(state)
        self._write_progress(state)

    def _write_progress(self, state: SearchState) -> None:
        with self._writing():
            write_text(self.path / _METRICS, "".join(_json(record) + "\n" for record in state.history))
            if state.history:
                write_text(self.path / _GENOTYPE, state.genotype.to_json() + "\n")
            else:
                (self.path / _GENOTYPE).unlink(missing_ok=True)

    def _write_summary(self, state: SearchState) -> None:
        from archgrad import __version__

        summary = {
            "archgrad": __version__,
            **self.description,
            "epochs": state.epochs,
            "seconds": round(state.seconds, 3),
            "genotype": str(state.genotype),
            "last_epoch": _plain(state.history[-1]),
        }
        with self._writing():
            write_text(self.path / _SUMMARY, json.dumps(summary, indent=2, ensure_ascii=False) + "\n")

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise UserError(
                f"the run folder {self.path} cannot be written ({error.strerror or error}); "
                f"choose a folder that exists or can be made, with space and permission to write."
            ) from error


def _json(record: Record) -> str:
    return json.dumps(_plain(record), allow_nan=False)


def _plain(record: Record) -> Record:
    """JSON knows no NaN and no infinity: they become null."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in record.items()
    }
