"""An engine that computes runs in this process, one by one, and can break one after its first epoch."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from archgrad.errors import ArchgradError
from archgrad.loop.folder import RunFolder
from archgrad.studies.engines import Ended, Engine, Job
from archgrad.studies.folder import StudyFolder
from archgrad.studies.worker import run_planned

__all__ = ["TINY", "InProcess"]

TINY = {"channels": 2, "cells": 1, "limit": 60, "batch_size": 20, "epochs": 2}


class InProcess(Engine):
    """``breaks`` names runs that break once, just after the record of their first epoch."""

    name = "in-process"
    capacity = 1

    def __init__(self, breaks: Sequence[str] = ()) -> None:
        self.breaks = list(breaks)
        self.submitted: list[str] = []
        self._ended: list[Ended] = []

    def submit(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            self.submitted.append(job.name)
            self._ended.append(self._run(job))

    def _run(self, job: Job) -> Ended:
        folder = StudyFolder(job.study)
        plan = folder.plan()
        with pytest.MonkeyPatch.context() as patch:
            if job.name in self.breaks:
                self.breaks.remove(job.name)
                patch.setattr(RunFolder, "on_epoch_end", _broken(RunFolder.on_epoch_end))
            try:
                run_planned(folder, plan, plan.run(job.name))
            except ArchgradError as error:
                return Ended(job, 1, str(error))
        return Ended(job, 0)

    def wait(self, seconds: float) -> list[Ended]:
        ended, self._ended = self._ended, []
        return ended

    def close(self) -> None:
        self._ended = []


def _broken(write):
    def once(self, search, record):
        write(self, search, record)
        raise ArchgradError("the power is gone.")

    return once
