"""Compute the runs of a study that are missing."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from archgrad.errors import SearchInterrupted
from archgrad.loop.interrupts import Interrupt, catch_signals
from archgrad.studies.engines import BUSY, Ended, Engine, Job
from archgrad.studies.folder import RunStatus, StudyFolder
from archgrad.studies.plan import PlannedRun, StudyPlan
from archgrad.system.files import read_text

__all__ = ["Coordinator", "run_missing"]

_ATTEMPTS = 2
_TICK = 1.0
_BEAT_SECONDS = 10.0
_LONGEST_REASON = 500

Watch = Callable[[list[RunStatus]], None]
"""Told how far all runs are, now and then."""


def run_missing(
    folder: StudyFolder, plan: StudyPlan, engine: Engine, watch: Watch = lambda status: None
) -> dict[str, str]:
    """Compute all runs that are not finished; return the reasons of those that failed twice, by name.

    The caller holds the study's lock. SIGINT and SIGTERM stop all runs with a checkpoint, and raise
    :class:`archgrad.errors.SearchInterrupted`.
    """
    with catch_signals(True) as interrupt, engine:
        coordinator = Coordinator(folder, plan, engine, watch, interrupt)
        try:
            coordinator.run()
        finally:
            folder.remove_heartbeat()
    return coordinator.failures


@dataclass
class Coordinator:
    """Submits the missing runs in the order of the plan, and tries each that fails once more."""

    folder: StudyFolder
    plan: StudyPlan
    engine: Engine
    watch: Watch
    interrupt: Interrupt
    failures: dict[str, str] = field(default_factory=dict)
    attempts: Counter[str] = field(default_factory=Counter)
    running: dict[str, PlannedRun] = field(default_factory=dict)
    waiting: deque[PlannedRun] = field(default_factory=deque)
    _finished: dict[str, RunStatus] = field(default_factory=dict)
    _beaten: float = 0.0
    _changed: bool = False

    def run(self) -> None:
        """Submit what is missing until nothing is left or a signal comes."""
        self.waiting.extend(run for run in self.plan.runs() if not self.folder.is_finished(run))
        self.folder.write_failures({})
        self._beat()
        while (self.waiting or self.running) and not self.interrupt.signal:
            self._submit()
            with self.folder.writing():
                ended = self.engine.wait(_TICK)
            for one in ended:
                self._note(one)
            if time.monotonic() - self._beaten > (_TICK if self._changed else _BEAT_SECONDS):
                self._beat()
        self._beat()
        if self.interrupt.signal:
            raise SearchInterrupted(
                f"stopped; continue with `archgrad compare {self.folder.path}`.", self.interrupt.signal
            )

    def _submit(self) -> None:
        free = len(self.waiting) if self.engine.capacity is None else self.engine.capacity - len(self.running)
        chosen = [self.waiting.popleft() for _ in range(min(free, len(self.waiting)))]
        if not chosen:
            return
        self.running |= {run.name: run for run in chosen}
        self._changed = True
        study = Path(self.folder.path).resolve()
        self.folder.write_heartbeat(self.engine.name, list(self.running))
        with self.folder.writing():
            self.engine.submit([Job(run.name, study, self.plan.config(run).threads or 1) for run in chosen])

    def _note(self, ended: Ended) -> None:
        """Take note of the end of a job: finished, to be tried again, or failed."""
        run = self.running.pop(ended.job.name)
        self._changed = True
        if not self.folder.is_finished(run):
            if ended.code == BUSY:  # its last process is still ending
                self.waiting.append(run)
            else:
                self._retry(run, ended)

    def _retry(self, run: PlannedRun, ended: Ended) -> None:
        self.attempts[run.name] += 1
        if self.attempts[run.name] < _ATTEMPTS:
            self.waiting.appendleft(run)
            return
        self.failures[run.name] = ended.reason or _last_line(ended.job.log) or f"it ended with exit code {ended.code}"
        self.folder.write_failures(self.failures)

    def _beat(self) -> None:
        """Show on disk and to the watcher how far the study is."""
        self._beaten, self._changed = time.monotonic(), False
        self.folder.write_heartbeat(self.engine.name, list(self.running))
        status = self.folder.status(self.plan, self._finished)
        self._finished |= {one.run.name: one for one in status if one.state == "finished"}
        self.watch(status)


def _last_line(log: Path) -> str:
    try:
        lines = read_text(log, "log").splitlines()
    except ValueError:
        return ""
    return next((line.strip()[:_LONGEST_REASON] for line in reversed(lines) if line.strip()), "")
