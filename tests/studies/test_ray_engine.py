"""The engine Ray, on a real cluster of two nodes whose workers need no PyTorch."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from forked import Forked

from archgrad import UserError
from archgrad.cli import main
from archgrad.studies.engines import make_engine
from archgrad.studies.folder import StudyFolder
from tests.studies.ray_nodes import two_nodes
from tests.studies.stubbed import ALL_EPOCHS, coordinator, lines, plan_of, wait_for

Cluster = tuple[str, "subprocess.Popen[str]"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with two_nodes() as made:
        yield made


def parent(process: int) -> int:
    return int(re.findall(r"PPid:\s+(\d+)", Path(f"/proc/{process}/status").read_text())[0])


def test_an_interrupted_and_a_killed_coordinator_leave_checkpoints(cluster: Cluster, tmp_path: Path) -> None:
    study, plan = tmp_path / "study", plan_of("waits", seeds=3)
    first = coordinator(study, plan, "ray", address=cluster[0])
    wait_for(lambda: len(lines(study, "work.txt")) == 2)
    os.kill(first.process.pid or 0, signal.SIGINT)
    _, _, errors = first.end()
    assert "continue with `archgrad compare" in errors
    assert lines(study, "stopped.txt") == ["stopped"] * 2
    second = coordinator(study, plan, "ray", address=cluster[0])
    wait_for(lambda: len(lines(study, "begun.txt")) == 4)
    second.process.kill()
    second.end()
    wait_for(lambda: len(lines(study, "stopped.txt")) == 4)
    (study / "go").touch()
    code, _, errors = coordinator(study, plan, "ray", address=cluster[0]).end()
    assert code == 0, errors
    assert lines(study, "work.txt") == ALL_EPOCHS * 3


def test_nothing_is_lost_doubled_or_repeated_when_a_worker_and_a_node_are_killed(
    cluster: Cluster, tmp_path: Path
) -> None:
    address, nodes = cluster
    study, plan = tmp_path / "study", plan_of("waits", seeds=3)
    run = coordinator(study, plan, "ray", address=address)
    wait_for(lambda: len(lines(study, "work.txt")) == 2)
    worker = parent(parent(int(lines(study, "begun.txt")[0].split()[1])))
    os.kill(worker, signal.SIGKILL)
    wait_for(lambda: len(lines(study, "stopped.txt")) == 1 and len(lines(study, "begun.txt")) == 3)
    assert nodes.stdin is not None
    nodes.stdin.write("kill\n")
    nodes.stdin.flush()
    wait_for(lambda: len(lines(study, "stopped.txt")) == 2)
    (study / "go").touch()
    code, said, errors = run.end()
    assert code == 0, errors
    assert said == ""
    assert lines(study, "work.txt") == ALL_EPOCHS * 3
    assert all(StudyFolder(study).is_finished(one) for one in plan.runs())


def _archgrad(*arguments: str) -> None:
    sys.argv = ["archgrad", *arguments]
    main()


def test_a_search_is_computed_by_the_command(cluster: Cluster, tmp_path: Path) -> None:
    sizes = ["--channels", "2", "--cells", "1", "--limit", "40", "--batch-size", "8", "--epochs", "1", "--threads", "1"]
    ray = ["--engine", "ray", "--address", cluster[0]]
    command = partial(_archgrad, "compare", "--methods", "darts", "--seeds", "1", *sizes, *ray, "-o", "study")
    code, _, errors = Forked(command, tmp_path, {}, at_once=True).end()
    assert code == 0, errors
    assert (tmp_path / "study" / "nasbench201-digits" / "darts-seed0" / "summary.json").exists()


def test_a_cluster_that_does_not_answer_is_a_sentence(archgrad, tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
    code, _, errors = archgrad("compare", "--methods", "darts", "--engine", "ray", "--address", address, "-o", "s")
    assert code == 2
    assert f"no Ray cluster answers at '{address}'" in errors
    assert not (tmp_path / "s" / "study.toml").exists()


@pytest.mark.parametrize("address", ["here", "ray://127.0.0.1:10001", "127.0.0.1:x", ":6379"])
def test_an_address_that_is_none_is_a_sentence(address: str) -> None:
    with pytest.raises(UserError, match="it must be HOST:PORT of a cluster that this machine belongs to"):
        make_engine("ray", 1, {"address": address})
