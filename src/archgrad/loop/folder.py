"""The run directory: what a search leaves on disk."""

from __future__ import annotations

import errno
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from archgrad.callbacks import Callback, Record, SearchView
from archgrad.distributed.processes import from_first, in_first_process, processes, state_from_first
from archgrad.errors import DiskError, FolderInUseError, UserError
from archgrad.loop.checkpoint import Checkpoints, RunIdentity
from archgrad.loop.state import nothing_decided
from archgrad.parts.fields import Range, check_value
from archgrad.spaces import Genotype
from archgrad.system.files import as_path, make_folder, read_text, unfinished_files, write_text
from archgrad.system.machine import describe_machine
from archgrad.system.run_kind import RUN_FILE, RunKind, write_kind

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = [
    "OF_THE_DISK",
    "RunFolder",
    "StageFolder",
    "checked_folder",
    "ending_of",
    "numbered_through",
    "read_records",
    "stage_folder",
    "summary_of",
]

OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Errors that a search meets although its folder is right: the disk is full, or it fails."""

_METRICS, _GENOTYPE, _SUMMARY = "metrics.jsonl", "genotype.json", "summary.json"
_LONGEST = 100_000_000


def checked_folder(out: Path | str | None, resume: bool, interruptible: bool) -> Path | None:
    """Return the run directory; reject what needs one if there is none."""
    check_value("resume", resume, bool)
    check_value("interruptible", interruptible, bool)
    if resume and out is None:
        raise UserError("resume=True needs out=FOLDER, the run directory to continue from.")
    if interruptible and out is None:
        raise UserError("interruptible=True needs out=FOLDER, where the checkpoint of an interrupted search is left.")
    return None if out is None else as_path("out", out)


class RunFolder(Callback):
    """Writes ``run.json``, ``metrics.jsonl``, ``genotype.json``, ``summary.json`` and the checkpoints of one search.

    ``files`` are other texts to write, by name, and ``run_kind`` is what ``run.json`` says. Every file is replaced as a
    whole, and a resume rebuilds it from the checkpoint, so the folder never shows an epoch twice. Of several processes
    only the first one writes and reads; the others get from it what it reads.
    """

    part = ""
    """Which stage of a search this is, in words."""

    def __init__(
        self,
        path: Path,
        identity: RunIdentity,
        files: Mapping[str, str] | None = None,
        run_kind: RunKind | None = "search",
    ) -> None:
        self.path, self.home = path, path  # a search in stages is resumed in its home
        self.identity, self.files, self.run_kind = identity, dict(files or {}), run_kind
        self.checkpoints, self.fallback = Checkpoints(path), Checkpoints(path, "healthy")

    def is_begun(self) -> bool:
        """Tell whether there is anything to resume."""
        return from_first(lambda: self.checkpoints.exist() or (self.path / _METRICS).exists())

    def is_finished(self) -> bool:
        """Tell whether the search in this folder is finished."""
        return from_first(lambda: self.checkpoints.exist() and (self.path / _SUMMARY).exists())

    @in_first_process
    def begin(self) -> None:
        """Write an empty checkpoint, so that a search in stages can be resumed; its stages hold everything else."""
        with self._writing():
            self._sweep()
            if not self.checkpoints.exist():
                self.checkpoints.save({}, self.identity)

    @contextmanager
    def opened(self, resume: bool) -> Iterator[dict[str, Any] | None]:
        """Lock the folder for this process; yield the checkpoint to resume from, or None for a new search."""
        if processes().rank:
            yield state_from_first(lambda: None)
            return
        with self._writing():
            if resume and not self.path.is_dir():
                raise UserError(f"there is no run directory {self.path} to resume; start a new search.")
            if self.path.exists() and not self.path.is_dir():
                raise UserError(f"{self.path} is a file; choose a folder for the run.")
            make_folder(self.path)
        with self._locked():
            fresh = not resume or self._is_fresh()
            if fresh:
                self._claim()
            yield state_from_first(lambda: None if fresh else self.checkpoints.load(self.identity))

    def _claim(self) -> None:
        """Claim the folder for this search; reject one that holds another search or other files."""
        if self.checkpoints.exist():
            raise UserError(
                f"{self.path} already holds a search; continue it with `archgrad resume {self.path}` "
                f"or choose another folder."
            )
        with self._writing():
            others = {*self.path.iterdir()}.difference({self.path / RUN_FILE, *unfinished_files(self.path)})
            found = sorted(entry.name for entry in others)
            if found and not self._is_fresh():
                raise UserError(
                    f"{self.path} is not empty: it holds {', '.join(found[:3])}{', …' if len(found) > 3 else ''}; "
                    f"choose a new or an empty folder for the run."
                )
            if self.run_kind is not None:
                write_kind(self.path, self.run_kind)
            write_text(self.path / _METRICS, "")
            for name, text in self.files.items():
                write_text(self.path / name, text)

    def _is_fresh(self) -> bool:
        """Tell whether a search was killed here before its first checkpoint, so that nothing can be lost."""
        with self._writing():
            metrics = self.path / _METRICS
            return not self.checkpoints.exist() and metrics.is_file() and metrics.stat().st_size == 0

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other processes out of the folder; the lock ends with the process."""
        if fcntl is None:
            yield
            return
        with self._writing():
            descriptor = os.open(self.path, os.O_RDONLY)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise FolderInUseError(
                    f"another search is running in {self.path}; wait for its end or choose another folder."
                ) from None
            except OSError:  # some network file systems have no locks
                pass
            yield
        finally:
            os.close(descriptor)

    @in_first_process
    def on_search_start(self, search: SearchView) -> None:
        """Bring the files up to date with the search, whatever a killed process left."""
        with self._writing():
            self._sweep()
            if not search.complete:
                (self.path / _SUMMARY).unlink(missing_ok=True)
        if not self.checkpoints.exist():
            self.save(search)
        self.show(search.history, search.genotype)

    def on_epoch_end(self, search: SearchView, record: Record) -> None:
        """Write the new record and a checkpoint."""
        self.show(search.history, search.genotype)
        self.save(search)

    def on_go_back(self, search: SearchView) -> None:
        """Write the earlier state, and drop the records after it."""
        self.save(search)
        self.show(search.history, search.genotype)

    def on_save(self, search: SearchView) -> None:
        """Write a checkpoint."""
        self.save(search)

    @in_first_process
    def on_search_end(self, search: SearchView) -> None:
        """Write the summary."""
        found = search.history, search.genotype, search.epochs, search.seconds
        self.conclude(summary_of(self.identity, *found, ending_of(search)))

    @in_first_process
    def save(self, search: SearchView) -> None:
        """Write a checkpoint."""
        with self._writing():
            self.checkpoints.save(search.tensors(), self.identity)

    @in_first_process
    def save_fallback(self, tensors: dict[str, Any]) -> None:
        """Save a state that the search may have to go back to."""
        with self._writing():
            self.fallback.save(tensors, self.identity)

    def load_fallback(self) -> dict[str, Any]:
        """Return the state that the search may go back to; empty if there is none."""
        return state_from_first(lambda: self.fallback.load_if_any(self.identity)) or {}

    def _sweep(self) -> None:
        """Remove unfinished files of a killed process."""
        for path in unfinished_files(self.path):
            path.unlink(missing_ok=True)

    @in_first_process
    def show(self, history: Sequence[Record], genotype: Genotype) -> None:
        """Write the records of all epochs so far, and the genotype of the last one."""
        with self._writing():
            lines = [json.dumps(_plain(record), allow_nan=False) + "\n" for record in history]
            write_text(self.path / _METRICS, "".join(lines))
            if history and history[-1]["genotype"] is not None:
                write_text(self.path / _GENOTYPE, genotype.to_json() + "\n")
            else:
                (self.path / _GENOTYPE).unlink(missing_ok=True)

    @in_first_process
    def conclude(self, summary: Mapping[str, Any]) -> None:
        """Write the summary of a finished search."""
        with self._writing():
            write_text(self.path / _SUMMARY, json.dumps(summary, indent=2, ensure_ascii=False) + "\n")

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            reason = f"the run folder {self.path} cannot be written ({error.strerror or error})"
            if error.errno in OF_THE_DISK:
                begun = self.checkpoints.exist()
                then = f"`archgrad resume {self.home}` continues from the last checkpoint" if begun else "start again"
                raise DiskError(f"{reason}; make room on its disk, then {then}.") from error
            raise UserError(
                f"{reason}; choose a folder that exists or can be made, with permission to write."
            ) from error


class StageFolder(RunFolder):
    """The folder of stage ``number`` of ``count``, counted from 1; it brings that of the ``whole`` search up to date.

    ``earlier`` are the records of the stages before.
    """

    def __init__(
        self, whole: RunFolder, identity: RunIdentity, number: int, count: int, earlier: Sequence[Record] = ()
    ) -> None:
        self.part = f"stage {number} of {count}"
        own = identity.with_parts(stage=self.part, of=whole.identity.digest)
        super().__init__(stage_folder(whole.path, number), own, run_kind=None)
        self.home, self._whole, self._number, self._earlier = whole.path, whole, number, earlier

    def on_search_start(self, search: SearchView) -> None:
        """Begin both folders."""
        super().on_search_start(search)
        self._whole.begin()
        if not search.complete:
            self._show_all(search)

    def on_epoch_end(self, search: SearchView, record: Record) -> None:
        """Write the new record to both folders."""
        super().on_epoch_end(search, record)
        self._show_all(search)

    def _show_all(self, search: SearchView) -> None:
        if search.history:
            own = numbered_through(search.history, self._number, len(self._earlier))
            self._whole.show([*self._earlier, *own], search.genotype)


def stage_folder(home: Path, number: int) -> Path:
    """Return the folder of a stage, counted from 1, of the search in ``home``."""
    return home / f"stage-{number}"


def numbered_through(records: Sequence[Record], stage: int, before: int) -> list[Record]:
    """Return the records of a stage with its number, and with epochs that are counted from the first stage on."""
    return [{"stage": stage, **record, "epoch": before + record["epoch"]} for record in records]


def ending_of(search: SearchView) -> dict[str, Any]:
    """Return why a search ended early, and from which epoch it went back to which; None where it did not."""
    switched = None if search.switched is None else dict(zip(("from", "to"), search.switched, strict=True))
    return {"stopped": search.stopped, "switched": switched}


def summary_of(
    identity: RunIdentity,
    history: Sequence[Record],
    genotype: Genotype,
    epochs: int,
    seconds: float,
    more: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the content of ``summary.json``, with those of ``more`` that are not None."""
    from archgrad import __version__

    return {
        "archgrad": __version__,
        "machine": describe_machine(),
        "identity": identity.digest,
        **identity.data,
        "epochs": epochs,
        "seconds": round(seconds, 3),
        "genotype": None if nothing_decided(history, more.get("stopped")) else str(genotype),
        "last_epoch": _plain(history[-1]),
        **{name: value for name, value in more.items() if value is not None},
    }


def _plain(record: Record) -> Record:
    """Replace NaN and infinity by None, because JSON lacks them."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in record.items()
    }


def read_records(folder: Path) -> list[dict[str, Any]]:
    """Read the records of a run, one for each finished epoch."""
    path = folder / _METRICS
    try:
        lines = read_text(path, "file with the records", _LONGEST).splitlines()
        records = [json.loads(line) for line in lines]
        for number, record in enumerate(records, start=1):
            _check_record(record, number, len(records))
    except (ValueError, KeyError, OverflowError, RecursionError) as error:  # UserError is a ValueError
        raise UserError(f"{path} is missing or damaged; `archgrad resume {folder}` writes it again.") from error
    return records


def _check_record(record: Any, number: int, count: int) -> None:
    """Raise an error unless a record is what a search writes: texts and finite numbers by name."""
    check_value("a record", record, dict[str, str | float | None])
    if type(record["epoch"]) is not int or record["epoch"] != number:
        raise ValueError("the record has another epoch")
    if record["genotype"] is not None:
        Genotype.parse(record["genotype"])
    for name, value in record.items():
        if name.startswith("oracle_"):
            check_value(name, value, float | None)
        if name in ("stage", "stopped_to", "switched_from"):
            check_value(name, value, Annotated[int, Range(1, count if name == "stopped_to" else 10**9)])
