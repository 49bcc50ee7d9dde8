"""The coordinator and the local engine, with a worker that needs no PyTorch."""

from __future__ import annotations

import os
import random
import signal
import sys
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import pytest

from archgrad import UserError
from archgrad.errors import SearchInterrupted
from archgrad.studies.coordinator import run_missing
from archgrad.studies.engines import BUSY, Ended, Engine, Job
from archgrad.studies.engines.local import LocalEngine
from archgrad.studies.folder import StudyFolder
from tests.studies.stubbed import ALL_EPOCHS, coordinator, lines, plan_of, stub_command


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Job, "command", property(stub_command))


class FakeEngine(Engine):
    """Ends every job at once, with the codes that the test wants, and keeps what it was given."""

    name = "fake"

    def __init__(self, codes: dict[str, list[int]] | None = None, capacity: int | None = 2) -> None:
        self.codes, self.capacity = codes or {}, capacity
        self.submitted: list[str] = []
        self._running: list[Job] = []

    def submit(self, jobs: Sequence[Job]) -> None:
        self.submitted += [job.name for job in jobs]
        self._running += jobs
        assert self.capacity is None or len(self._running) <= self.capacity

    def wait(self, seconds: float) -> list[Ended]:
        ended = [Ended(job, (self.codes.get(job.name) or [0]).pop(0)) for job in self._running]
        self._running = []
        for one in ended:
            if one.code == 0:
                home = one.job.study / one.job.name
                home.mkdir(parents=True, exist_ok=True)
                (home / "summary.json").write_text("{}")
        return ended

    def close(self) -> None:
        self._running = []


def test_every_run_is_submitted_once_in_order(tmp_path: Path) -> None:
    plan, engine = plan_of("x", "y", seeds=2), FakeEngine()
    assert run_missing(StudyFolder(tmp_path), plan, engine) == {}
    assert engine.submitted == ["b/x-seed0", "b/y-seed0", "b/x-seed1", "b/y-seed1"]


def test_finished_runs_are_never_repeated_and_new_ones_are_added(tmp_path: Path) -> None:
    run_missing(StudyFolder(tmp_path), plan_of("x"), FakeEngine())
    engine = FakeEngine()
    run_missing(StudyFolder(tmp_path), plan_of("x", "y", seeds=2), engine)
    assert engine.submitted == ["b/y-seed0", "b/x-seed1", "b/y-seed1"]


def test_a_failed_run_is_tried_twice_and_stops_nobody(tmp_path: Path) -> None:
    folder, engine = StudyFolder(tmp_path), FakeEngine({"b/x-seed0": [2, 1], "b/y-seed0": [1, 0]})
    failures = run_missing(folder, plan_of("x", "y", "z"), engine)
    assert list(failures) == ["b/x-seed0"]
    assert engine.submitted.count("b/x-seed0") == engine.submitted.count("b/y-seed0") == 2
    assert {one.run.name: one.state for one in folder.status(plan_of("x", "y", "z"))} == {
        "b/x-seed0": "failed", "b/y-seed0": "finished", "b/z-seed0": "finished",
    }  # fmt: skip
    again = FakeEngine()
    assert run_missing(folder, plan_of("x", "y", "z"), again) == {}
    assert again.submitted == ["b/x-seed0"]
    assert folder.failures() == {}


def test_the_watcher_hears_of_a_run_soon_after_it_began(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(FakeEngine):
        waits = 2

        def wait(self, seconds: float) -> list[Ended]:
            self.waits -= 1
            return [] if self.waits else super().wait(seconds)

    monkeypatch.setattr("archgrad.studies.coordinator._TICK", -1.0)
    seen: list[str] = []
    run_missing(StudyFolder(tmp_path), plan_of("x"), Slow(), lambda status: seen.append(status[0].state))
    assert seen[:2] == ["waiting", "running"]
    assert seen[-1] == "finished"


def test_a_run_whose_folder_is_in_use_is_tried_again_and_is_no_failure(tmp_path: Path) -> None:
    engine = FakeEngine({"b/x-seed0": [BUSY, BUSY, BUSY, 0]})
    assert run_missing(StudyFolder(tmp_path), plan_of("x"), engine) == {}
    assert len(engine.submitted) == 4


def test_an_engine_with_a_queue_gets_everything_at_once(tmp_path: Path) -> None:
    engine = FakeEngine(capacity=None)
    sizes: list[int] = []
    monitor = engine.submit
    engine.submit = lambda jobs: (sizes.append(len(jobs)), monitor(jobs))[1]  # type: ignore[method-assign]
    run_missing(StudyFolder(tmp_path), plan_of("x", "y", seeds=3), engine)
    assert sizes == [6]


def test_the_reason_of_a_failure_is_the_last_line_of_its_log(tmp_path: Path, stub: None) -> None:
    failures = run_missing(StudyFolder(tmp_path), plan_of("fails", "fails-once", "works"), LocalEngine(processes=2))
    assert failures == {"b/fails-seed0": "something is wrong; mend it."}
    assert (tmp_path / "b" / "fails-once-seed0" / "summary.json").exists()


def test_a_killed_process_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kill = [sys.executable, "-S", "-c", "import os; os.kill(os.getpid(), 9)"]
    monkeypatch.setattr(Job, "command", property(lambda job: kill))
    failures = run_missing(StudyFolder(tmp_path), plan_of("x"), LocalEngine(processes=1))
    assert failures == {"b/x-seed0": "it was killed by SIGKILL"}


def test_two_coordinators_do_not_work_on_one_study(tmp_path: Path) -> None:
    folder = StudyFolder(tmp_path)
    with folder.locked():
        folder.write_heartbeat("local", ["b/x-seed0"])
        with pytest.raises(UserError, match=r"another `archgrad compare` \(process .*archgrad status"):
            StudyFolder(tmp_path).locked().__enter__()
    with folder.locked():
        pass


def test_a_coordinator_on_another_machine_is_seen_by_its_heartbeat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = StudyFolder(tmp_path)
    folder.write_heartbeat("local", [])
    monkeypatch.setattr("socket.gethostname", lambda: "elsewhere")
    with pytest.raises(UserError, match="works on"), folder.locked():
        pass
    folder.remove_heartbeat()
    with folder.locked():
        pass


def test_a_signal_stops_the_study_and_says_how_to_continue(tmp_path: Path) -> None:
    class Signalled(FakeEngine):
        def wait(self, seconds: float) -> list[Ended]:
            os.kill(os.getpid(), signal.SIGTERM)
            return []

    folder = StudyFolder(tmp_path)
    with pytest.raises(SearchInterrupted, match=f"continue with `archgrad compare {tmp_path}`") as stop:
        run_missing(folder, plan_of("x"), Signalled())
    assert stop.value.signal == signal.SIGTERM
    assert not folder.heartbeat().alive


def test_a_killed_coordinator_loses_nothing(tmp_path: Path) -> None:
    """Kill it 8 times, each time after as many epochs as a generator says; no epoch is computed twice."""
    study, plan, draws = tmp_path / "study", plan_of("x", "y", seeds=8), random.Random(0)  # noqa: S311
    for _ in range(8):
        target = len(lines(study, "work.txt")) + draws.randint(1, 4)
        forked = coordinator(study, plan, "local", processes=2)
        while forked.process.is_alive() and len(lines(study, "work.txt")) < target:
            forked.process.join(0.01)
        forked.process.kill()
        forked.end()
    code, _, errors = coordinator(study, plan, "local", processes=2).end()
    assert code == 0, errors
    for run in plan.runs():
        assert (study / run.name / "work.txt").read_text().split() == ALL_EPOCHS, run.name
        assert StudyFolder(study).is_finished(run)


def test_a_thousand_runs_take_little_memory(tmp_path: Path) -> None:
    plan = plan_of("x", "y", seeds=500)
    tracemalloc.start()
    run_missing(StudyFolder(tmp_path), plan, FakeEngine(capacity=100))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20e6
    assert all(StudyFolder(tmp_path).is_finished(run) for run in plan.runs())


def test_half_a_line_and_odd_files_do_not_break_the_status(tmp_path: Path) -> None:
    folder, plan = StudyFolder(tmp_path), plan_of("x")
    home = tmp_path / "b" / "x-seed0"
    home.mkdir(parents=True)
    (home / "metrics.jsonl").write_text('{"epoch": 1, "seconds": 2.0}\n{"epoch": 2, "sec')
    (tmp_path / "heartbeat.json").write_text("[1]")
    (tmp_path / "failures.json").write_text("{")
    assert [one.state for one in folder.status(plan)] == ["waiting"]
    (tmp_path / "heartbeat.json").write_text('{"pid": "x"}')
    assert not folder.heartbeat().alive
