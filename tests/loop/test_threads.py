"""A search takes as many threads as are fastest, and no more than it may use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import archgrad as ag
from archgrad.config import SearchConfig
from archgrad.config.resolve import resolve
from archgrad.loop import estimate
from archgrad.loop.estimate import choose_threads, usable_cores
from archgrad.loop.prepare import prepare
from archgrad.loop.run import Run

DATA = ag.data.digits(limit=40)
CONFIG = SearchConfig(space="nasbench201", method="darts", channels=2, cells=1, epochs=1, batch_size=10)
PARTS = resolve(CONFIG)


@pytest.fixture(autouse=True)
def _threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = torch.get_num_threads()
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("seconds", "chosen"),
    [
        ({1: 1.0, 2: 2.0}, 1),  # a busy machine
        ({1: 4.0, 2: 2.0, 4: 1.05, 6: 1.0}, 4),  # 6 are hardly faster
        ({1: 8.0, 2: 4.0, 4: 2.0, 6: 1.0}, 6),
    ],
)
def test_more_threads_are_taken_while_they_are_faster(
    seconds: dict[int, float], chosen: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(estimate, "usable_cores", lambda: 6)
    monkeypatch.setattr(estimate, "_seconds", lambda *args: seconds[torch.get_num_threads()])
    assert choose_threads(PARTS, DATA) == chosen == torch.get_num_threads()


@pytest.mark.parametrize(("method", "told"), [("gaea-simultaneous", True), ("random-nas", False)])
def test_cores_that_one_search_cannot_use_are_told(method: str, told: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    monkeypatch.setattr(estimate, "usable_cores", lambda: 2)
    monkeypatch.setattr(estimate, "_seconds", lambda *args: float(torch.get_num_threads()))
    prepare(replace(CONFIG, method=method, threads=None), tell=lines.append)
    expected = "1 thread (--threads)"
    expected += ", more are not faster; --voters 2 searches 2 times at once, and lets the searches vote" if told else ""
    assert expected in lines


def test_real_steps_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []  # not set, because two threads on a busy machine wait for each other
    with monkeypatch.context() as patch:
        patch.setattr(torch, "set_num_threads", asked.append)
        patch.setattr(estimate, "usable_cores", lambda: 2)
        chosen = choose_threads(PARTS, DATA)
    assert asked == [1, 2, chosen]


def test_an_unknown_device_is_a_sentence() -> None:
    with pytest.raises(ag.UserError, match="the device 'foo' cannot be used"):
        choose_threads(resolve(replace(CONFIG, device="foo")), DATA)


def test_steps_that_diverge_leave_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate, "usable_cores", lambda: 2)
    assert choose_threads(resolve(replace(CONFIG, settings={"weights.lr": 1e30})), DATA) == 1 == torch.get_num_threads()


def test_what_the_environment_fixes_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    torch.set_num_threads(3)
    monkeypatch.setattr(estimate, "_seconds", lambda *args: pytest.fail("nothing is to be timed"))
    assert choose_threads(PARTS, DATA) == 3


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="there is no affinity here")
@pytest.mark.parametrize(("limit", "cores"), [("max 100000", 6), ("250000 100000", 2), ("30000 100000", 1), (None, 6)])
def test_affinity_and_containers_limit_the_cores(
    limit: str | None, cores: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(6)))
    monkeypatch.setattr(estimate, "_CONTAINER", tmp_path / "cpu.max")
    if limit is not None:
        (tmp_path / "cpu.max").write_text(f"{limit}\n")
    assert usable_cores() == cores


def test_the_command_records_the_number_and_a_resume_keeps_it(archgrad) -> None:
    tiny = ("--channels", 2, "--cells", 1, "--limit", 40, "--batch-size", 10, "--epochs", 1, "--out", "run")
    torch.set_num_threads(1)
    archgrad.run("search", *tiny)
    assert "threads = 1\n" in Path("run/config.toml").read_text()
    torch.set_num_threads(2)
    archgrad.run("resume", "run")
    assert "threads = 1\n" in Path("run/config.toml").read_text()


def test_a_search_from_python_leaves_the_threads_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    monkeypatch.setattr(Run, "step", lambda run, step=Run.step: (seen.append(torch.get_num_threads()), step(run))[1])
    torch.set_num_threads(3)
    run = ag.Search(PARTS.space, "darts", DATA, epochs=1, batch_size=20, threads=2)
    run.result()
    assert set(seen) == {2}
    assert torch.get_num_threads() == 3
    assert run.experiment.config.threads == 2
