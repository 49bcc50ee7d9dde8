"""What a process knows about the others, without any."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import archgrad as ag
from archgrad.distributed import processes as module
from archgrad.distributed.environment import is_silent, launched
from archgrad.distributed.processes import (
    Processes,
    check_same,
    from_first,
    in_first_process,
    joined,
    largest,
    own_device,
    state_from_first,
)
from archgrad.errors import UserError


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name, value in {"RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "host", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


def test_a_process_alone_decides_for_itself() -> None:
    with joined("cpu") as me:
        assert me == Processes(0, 1)
        assert from_first(lambda: {1: 2}) == {1: 2}  # as it is, not as JSON has it
        assert state_from_first(lambda: None) is None
        assert largest(7) == 7
        check_same("other data", lambda: "no digest is computed")


_ENDING = """
import os, sys, torch, torch.distributed as dist
import archgrad.distributed.processes
dist.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=0, world_size=1)
torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)  # imports all that PyTorch has about groups
dist.all_reduce(torch.ones(3))
dist.destroy_process_group()
print([open(f"/proc/self/task/{thread}/comm").read() for thread in os.listdir("/proc/self/task")])
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="the threads are those of Linux")
def test_the_threads_of_gloo_end_with_the_group(tmp_path: Path) -> None:
    """A thread that outlives the group may abort the process when Python ends."""
    command = [sys.executable, "-c", _ENDING, str(tmp_path / "store")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "python" in done.stdout
    assert "gloo" not in done.stdout


def test_the_environment_of_torchrun_is_read(started: pytest.MonkeyPatch) -> None:
    started.setenv("LOCAL_RANK", "3")
    assert launched() == (1, 4, 3, 4)
    assert is_silent()
    assert (own_device("cuda"), own_device("cuda:0"), own_device("cpu")) == ("cuda:3", "cuda:0", "cpu")
    for there, own in ((False, "auto"), (True, "cuda:3")):
        started.setattr(torch.cuda, "is_available", lambda there=there: there)
        assert own_device("auto") == own
    started.setenv("WORLD_SIZE", "1")
    started.setenv("RANK", "0")
    assert launched() is None
    assert not is_silent()


@pytest.mark.parametrize(
    ("name", "value"), [("RANK", "x"), ("RANK", "4"), ("WORLD_SIZE", "-1"), ("LOCAL_RANK", "1" * 30)]
)
def test_a_wrong_environment_is_a_sentence(started: pytest.MonkeyPatch, name: str, value: str) -> None:
    started.setenv(name, value)
    with pytest.raises(UserError, match=name):
        launched()


def test_other_processes_neither_write_nor_log(monkeypatch: pytest.MonkeyPatch, said: list[str]) -> None:
    written: list[int] = []
    write = in_first_process(written.append)
    write(1)
    monkeypatch.setattr(module, "processes", lambda: Processes(1, 2))
    write(2)
    assert written == [1]
    with module._quiet_logs(True):
        logging.getLogger("archgrad").warning("one")
    logging.getLogger("archgrad").warning("two")
    assert said == ["two"]


def test_compiling_is_for_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archgrad.config.resolve.processes", lambda: Processes(0, 2))
    with pytest.raises(UserError, match="compile works in one process only"):
        ag.search("nasbench201", "darts", "digits", epochs=1, compile=True)
