"""The folder of a study: its plan, its runs, what failed, and who works on it."""

from __future__ import annotations

import json
import math
import os
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from archgrad.errors import UserError
from archgrad.studies.plan import PlannedRun, StudyPlan, begun_plan_from_toml, begun_plan_to_toml
from archgrad.system.files import exists, is_unfinished, make_folder, read_text, unfinished_files, write_text
from archgrad.system.run_kind import RUN_FILE, write_kind

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["Heartbeat", "RunState", "RunStatus", "StudyFolder"]

RunState = Literal["waiting", "running", "interrupted", "failed", "finished"]
_PLAN, _LOCK, _HEARTBEAT, _FAILURES, _LOGS = "study.toml", "study.lock", "heartbeat.json", "failures.json", "logs"
ALIVE_SECONDS = 60.0
"""A coordinator that has not shown itself for so long is gone."""
_LARGEST = 1 << 26
_NONE: Mapping[str, Any] = {}


@dataclass(frozen=True)
class RunStatus:
    """How far a run is: its state, finished epochs, and the sentence of its failure."""

    run: PlannedRun
    state: RunState
    epochs: int = 0
    seconds: float = 0.0
    reason: str = ""


@dataclass(frozen=True)
class Heartbeat:
    """Who works on a study, how many seconds ago it said so, and which runs are under way."""

    host: str = ""
    pid: int = 0
    engine: str = ""
    age: float = math.inf
    running: tuple[str, ...] = ()

    @property
    def alive(self) -> bool:
        """Whether somebody works on the study now."""
        return self.age < ALIVE_SECONDS


@dataclass(frozen=True)
class StudyFolder:
    """A study on disk; everything that is known of it can be read from any machine that sees the folder."""

    path: Path

    def exists(self) -> bool:
        """Tell whether there is a study."""
        return exists(self.path / _PLAN)

    def plan(self) -> StudyPlan:
        """Read the plan."""
        if not self.exists():
            raise UserError(
                f"{str(self.path)[:150]} is no study: it has no {_PLAN}; start one with `archgrad compare`."
            )
        return begun_plan_from_toml(self.path / _PLAN)

    def is_complete(self, plan: StudyPlan) -> bool:
        """Tell whether all runs of a plan are finished."""
        return all(self.is_finished(run) for run in plan.runs())

    def write_plan(self, plan: StudyPlan) -> None:
        """Write what the folder is, and the plan."""
        with self.writing():
            write_kind(self.path, "study")
            write_text(self.path / _PLAN, begun_plan_to_toml(plan))

    def _reject_other_content(self) -> None:
        """Reject a folder that holds something else than a study, and leave nothing in it."""
        if self.exists() or not exists(self.path):
            return
        found = {one.name for one in self.path.iterdir() if not is_unfinished(one)}
        other = sorted(found - {RUN_FILE, _LOCK, _HEARTBEAT, _FAILURES, _LOGS})
        if other:
            raise UserError(f"{self.path} is no study, but holds {', '.join(other[:3])}; choose a new folder.")

    def run_folder(self, run: PlannedRun) -> Path:
        """Return the run directory of a run."""
        return self.path / run.name

    def is_finished(self, run: PlannedRun) -> bool:
        """Tell whether a run has its result."""
        return (self.run_folder(run) / "summary.json").exists()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other coordinators out of the study; the lock ends with the process."""
        with self.writing():
            self._reject_other_content()
            make_folder(self.path)
            descriptor = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            self._lock(descriptor)
            with self.writing():
                for path in unfinished_files(self.path):  # of a killed coordinator; each run removes its own
                    path.unlink(missing_ok=True)
            yield
        finally:
            os.close(descriptor)

    def _lock(self, descriptor: int) -> None:
        busy, beat = False, self.heartbeat()
        if fcntl is not None:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                busy = True
            except OSError:  # some network file systems have no locks
                pass
        if busy or (beat.alive and beat.host != socket.gethostname()):
            who = f" (process {beat.pid} on {beat.host})" if beat.host else ""
            raise UserError(
                f"another `archgrad compare`{who} works on {self.path}; wait for its end, or watch it with "
                f"`archgrad status {self.path}`."
            )

    def write_heartbeat(self, engine: str, running: Sequence[str]) -> None:
        """Say on disk that this process works on the study, and which runs are under way."""
        beat = {"host": socket.gethostname(), "pid": os.getpid(), "engine": engine}
        with self.writing():
            write_text(self.path / _HEARTBEAT, json.dumps({**beat, "running": sorted(running)}) + "\n")

    def remove_heartbeat(self) -> None:
        """Say on disk that nobody works on the study."""
        with self.writing():
            (self.path / _HEARTBEAT).unlink(missing_ok=True)

    def heartbeat(self) -> Heartbeat:
        """Return who works on the study."""
        content = self._json(_HEARTBEAT)
        try:
            running = tuple(map(str, content["running"]))
            return Heartbeat(str(content["host"]), int(content["pid"]), str(content["engine"]), self._age(), running)
        except (KeyError, TypeError, ValueError, OSError):
            return Heartbeat()

    def _age(self) -> float:
        """Return the age of the heartbeat by the clock of the file system, which all machines share."""
        shown = (self.path / _HEARTBEAT).stat().st_mtime
        try:
            os.utime(self.path / _LOCK)
            now = (self.path / _LOCK).stat().st_mtime
        except OSError:  # it may only be read
            now = time.time()
        return abs(now - shown)

    def failures(self) -> dict[str, str]:
        """Return the reasons of failed runs, by the names of the runs."""
        return {str(name): str(reason) for name, reason in self._json(_FAILURES).items()}

    def write_failures(self, failures: Mapping[str, str]) -> None:
        """Write the reasons of failed runs."""
        with self.writing():
            write_text(self.path / _FAILURES, json.dumps(dict(failures), indent=2, ensure_ascii=False) + "\n")

    def status(self, plan: StudyPlan | None = None, finished: Mapping[str, RunStatus] = _NONE) -> list[RunStatus]:
        """Return how far every run is, from the files alone; those known to be ``finished`` are not read again."""
        beat, failures = self.heartbeat(), self.failures()
        running = set(beat.running) if beat.alive else set()
        return [
            finished.get(run.name) or self._status(run, run.name in running, failures.get(run.name))
            for run in (plan or self.plan()).runs()
        ]

    def _status(self, run: PlannedRun, running: bool, failure: str | None) -> RunStatus:
        epochs, seconds = self._progress(run)
        if self.is_finished(run):
            return RunStatus(run, "finished", epochs, seconds)
        if running:
            return RunStatus(run, "running", epochs, seconds)
        if failure is not None:
            return RunStatus(run, "failed", epochs, seconds, failure)
        return RunStatus(run, "interrupted" if epochs else "waiting", epochs, seconds)

    def _progress(self, run: PlannedRun) -> tuple[int, float]:
        """Return the finished epochs of a run and their seconds; half a last line does not count."""
        try:
            lines = read_text(self.run_folder(run) / "metrics.jsonl", "file with the records", _LARGEST).splitlines()
            return len(lines), sum(float(json.loads(line)["seconds"]) for line in lines)
        except (ValueError, KeyError, TypeError, RecursionError):
            return 0, 0.0

    def _json(self, name: str) -> dict[str, Any]:
        path = self.path / name
        if not path.exists():
            return {}
        try:
            content = json.loads(read_text(path, "file of a study", _LARGEST))
            return content if isinstance(content, dict) else {}
        except (ValueError, RecursionError):  # also a UserError: the file is gone by now
            return {}

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Turn the errors of a disk, such as that it is full, into a sentence that says how to continue."""
        try:
            yield
        except OSError as error:
            raise UserError(
                f"the study {self.path} cannot be written ({error.strerror or error}); nothing is lost: make room or "
                f"give permission to write, then `archgrad compare {self.path}` continues."
            ) from error
