"""Runs as jobs of a Slurm cluster whose machines share the folder of the study."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from archgrad.errors import UserError
from archgrad.studies.engines import Ended, Engine, Job
from archgrad.studies.engines.local import start, stop
from archgrad.system.files import write_text

__all__ = ["SlurmEngine", "SlurmRun"]

_PAUSE = 2.0
_ANSWER_SECONDS = 20.0
_SECONDS_TO_STOP = 90.0
_MOST_TIMEOUTS = 10_000
_SIGNAL_SECONDS = 120
"""So long before its time limit, or a minute more, a job is told to write a checkpoint and to be queued again."""
_FEWEST_MINUTES = 5


class SlurmEngine(Engine):
    """A job array of one job for each run. A job that reaches its time limit is queued again, and continues.

    ``minutes`` is the time limit of a job; ``partition`` is the cluster's own if None. ``slurm/jobs.json`` in the
    study's folder has the numbers of its jobs: a study that is continued waits for those that still run.
    """

    name = "slurm"

    def __init__(self, threads: int = 1, partition: str | None = None, minutes: int = 60) -> None:
        if minutes < _FEWEST_MINUTES:
            raise UserError(
                f"--minutes is {minutes}, but a job is told up to 3 minutes before its limit that it must stop; give "
                f"{_FEWEST_MINUTES} or more."
            )
        _check_slurm()
        self._parameters: dict[str, Any] = {
            "time": minutes, "cpus_per_task": threads, "job_name": "archgrad", "signal_delay_s": _SIGNAL_SECONDS,
            **({} if partition is None else {"partition": partition}),
        }  # fmt: skip
        self._running: dict[str, Job] = {}
        self._waiting: list[Job] = []

    def submit(self, jobs: Sequence[Job]) -> None:
        """Keep the jobs until Slurm answers the next time."""
        self._waiting += jobs

    def wait(self, seconds: float) -> list[Ended]:
        """Submit what is new, and ask Slurm, as often as it takes, which jobs are left in its queue."""
        until = time.monotonic() + seconds
        while True:
            queued = _queued()
            if queued is not None:
                gone = [number for number in self._running if number not in queued]
                self._submit(queued)
                if gone:
                    return [self._ended(number) for number in gone]
            if time.monotonic() >= until:
                return []
            time.sleep(_PAUSE)

    def _submit(self, queued: set[str]) -> None:
        """Submit the jobs that wait as one array, but for those that Slurm still has from before."""
        if not self._waiting:
            return
        jobs, self._waiting = self._waiting, []
        file = jobs[0].study / "slurm" / "jobs.json"
        before = {name: number for name, number in _read_numbers(file).items() if number in queued}
        new = [job for job in jobs if job.name not in before]
        numbers = before | (self._submit_new(new) if new else {})
        write_text(file, json.dumps(numbers, indent=2) + "\n")
        self._running |= {numbers[job.name]: job for job in jobs}

    def _submit_new(self, jobs: Sequence[Job]) -> dict[str, str]:
        import submitit

        executor = submitit.SlurmExecutor(folder=jobs[0].study / "slurm", max_num_timeout=_MOST_TIMEOUTS)
        executor.update_parameters(**self._parameters, array_parallelism=len(jobs))
        try:
            with executor.batch():
                made = [executor.submit(SlurmRun(job, job.command[1:])) for job in jobs]
        except (subprocess.SubprocessError, submitit.core.utils.FailedJobError) as error:
            raise UserError(f"Slurm does not take the jobs ({str(error)[:300]}); mend it, then continue.") from error
        return {job.name: one.job_id for one, job in zip(made, jobs, strict=True)}

    def _ended(self, number: str) -> Ended:
        job = self._running.pop(number)
        try:
            return Ended(job, int(_code_file(job).read_text(encoding="ascii")))
        except (OSError, ValueError):
            return Ended(job, 1, f"Slurm ended its job {number} before the run was finished")

    def close(self) -> None:
        """Cancel all jobs, and wait until they have written their checkpoints."""
        if self._running:
            subprocess.run(["scancel", *self._running], check=False, capture_output=True)  # noqa: S603, S607
        until = time.monotonic() + _SECONDS_TO_STOP
        while self._running.keys() & (_queued() or set()) and time.monotonic() < until:
            time.sleep(_PAUSE)
        self._running.clear()


class SlurmRun:
    """What a job computes: Python with the ``arguments``. submitit calls ``checkpoint`` before the time limit."""

    def __init__(self, job: Job, arguments: Sequence[str]) -> None:
        self.job, self.arguments = job, tuple(arguments)
        self._process: subprocess.Popen[bytes] | None = None

    def __call__(self) -> int:
        """Compute the run, and return the exit code of its process.

        A thread waits for the process: ``checkpoint`` is called in a signal handler of the main one, and there it could
        not wait for a process for which the code below the handler waits already.
        """
        _code_file(self.job).unlink(missing_ok=True)
        self._process = start([sys.executable, *self.arguments], self.job.log, self.job.threads)
        waiter = threading.Thread(target=self._process.wait)
        waiter.start()
        try:
            waiter.join()
        finally:
            stop(self._process)
        write_text(_code_file(self.job), str(self._process.returncode))
        return self._process.returncode

    def checkpoint(self) -> Any:
        """Let the process write its checkpoint, and queue the job again."""
        import submitit

        if self._process is not None:
            stop(self._process)
        return submitit.helpers.DelayedSubmission(SlurmRun(self.job, self.arguments))


def _code_file(job: Job) -> Path:
    return job.log.with_suffix(".code")


def _read_numbers(file: Path) -> dict[str, str]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        return {str(name): str(number) for name, number in content.items()}
    except (OSError, ValueError, AttributeError):
        return {}


def _check_slurm() -> None:
    """Raise a UserError unless submitit is installed and Slurm answers."""
    try:
        import submitit  # noqa: F401
    except ImportError:
        raise UserError('the engine "slurm" needs submitit: pip install "archgrad[slurm]".') from None
    if shutil.which("sbatch") is None:
        raise UserError("there is no Slurm on this machine (no program sbatch); start the study on a login node.")
    if _queued() is None:
        raise UserError("Slurm does not answer (squeue fails); see whether slurmctld runs, then start the study again.")


def _queued() -> set[str] | None:
    """Return the numbers of the user's jobs that wait or run, ``ARRAY_INDEX``; None if Slurm does not answer."""
    try:
        told = subprocess.run(
            ["squeue", "--me", "--noheader", "--array", "--format=%i"],  # noqa: S607
            capture_output=True,
            text=True,
            timeout=_ANSWER_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return set(told.stdout.split())
