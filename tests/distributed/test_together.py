"""The command in several processes: it writes once, survives kills and signals, and says each error once."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
import torch
from forked import Forked

from archgrad.cli import main

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the signals are those of POSIX")

SEARCH = [
    "search", "--space", "tiny_space:Tiny", "--channels", "2", "--cells", "1", "--data", "digits", "--limit", "60",
    "--batch-size", "10", "--method", "darts", "--oracle", "none", "--callback", "searches:Waiting", "--epochs", "2",
]  # fmt: skip


class Together:
    """Two processes of one command, started as torchrun does."""

    def __init__(self, folder: Path, *arguments: str, at_once: bool = False, waiting: bool = False) -> None:
        self.go = folder / "go"
        if waiting:
            os.mkfifo(self.go)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = str(probe.getsockname()[1])
        settings = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": "1"}
        self.ranks = [
            Forked(partial(run, arguments), folder, settings | {"RANK": rank, "LOCAL_RANK": rank}, at_once)
            for rank in ("0", "1")
        ]

    def after_an_epoch(self, number: int, rank: int) -> None:
        """Send a signal to a process once the first one has saved an epoch; then let it go on."""
        assert any("waiting" in line for line in self.ranks[0].output), self.end()
        os.kill(self.ranks[rank].process.pid or 0, number)
        self.go.write_text("")
        self.go.unlink()

    def end(self) -> list[tuple[int | None, str, str]]:
        """Return the exit code, the output and the errors of each process."""
        return [rank.end() for rank in self.ranks]


def run(arguments: Sequence[str]) -> None:
    """Run the command."""
    sys.argv = ["archgrad", *arguments]
    main()


def epochs_in(run: Path) -> int:
    return len((run / "metrics.jsonl").read_text().splitlines()) if (run / "metrics.jsonl").exists() else 0


def saved(run: Path) -> dict[str, torch.Tensor]:
    content = torch.load(run / "checkpoint.pt", weights_only=True)["content"]
    return {**content["weights"], **content["alpha"]}


def test_a_killed_process_ends_the_others_and_the_run_resumes_with_any_number(tmp_path: Path, archgrad) -> None:
    run = tmp_path / "run"
    processes = Together(tmp_path, *SEARCH, "--out", "run", waiting=True)
    processes.after_an_epoch(signal.SIGKILL, 1)
    (code, _, said), (killed, silent, nothing) = processes.end()
    assert (code, killed) == (1, -signal.SIGKILL)
    assert "error: another process of this search has ended" in said
    assert "`archgrad resume run` continues from the last checkpoint, with any number of processes." in said
    assert said.count("error:") == 1
    assert silent == nothing == ""
    code, _, said = archgrad("resume", "run")
    assert code == 0
    assert "began with 2 processes and continues with 1" in said
    assert epochs_in(run) == 2


def test_a_signal_to_one_process_ends_all_with_a_checkpoint_that_resumes_exactly(tmp_path: Path) -> None:
    run, whole = tmp_path / "run", tmp_path / "whole"
    options = [*SEARCH, "--seed", "1", "--out"]
    processes = Together(tmp_path, *options, "run", waiting=True)
    processes.after_an_epoch(signal.SIGTERM, 1)
    (code, _, said), (other, silent, nothing) = processes.end()
    assert (code, other) == (143, 143)
    assert said.count("stopped after") == 1
    assert silent == nothing == ""
    for command in (["resume", "run"], [*options, "whole"]):
        assert [code for code, *_ in Together(tmp_path, *command, at_once=True).end()] == [0, 0]
    assert all(torch.equal(value, saved(whole)[name]) for name, value in saved(run).items())
    assert json.loads((run / "summary.json").read_text())["genotype"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["search", "--method", "nope"], "unknown method 'nope'"),
        ([*SEARCH, "--batch-size", "1"], "smaller than the number of processes, 2"),
    ],
)
def test_an_error_of_all_is_said_once(tmp_path: Path, arguments: list[str], sentence: str) -> None:
    (code, _, said), (other, *others) = Together(tmp_path, *arguments).end()
    assert (code, other) == (2, 2)
    assert sentence in said
    assert others == ["", ""]
