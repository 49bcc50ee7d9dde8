"""A search whose data worker processes read: the same bits for any number of them, however the search ends."""

from __future__ import annotations

import multiprocessing
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch
from same_bits import same_bits
from torch import Tensor
from torch.utils.data import Dataset

import archgrad as ag
from archgrad.errors import UserError


class Spectrograms(Dataset[Any]):
    """Floats of 12 channels that are not square, with random noise of the global generator."""

    def __init__(self) -> None:
        self.inputs = torch.rand(48, 12, 8, 12, generator=torch.Generator().manual_seed(0))
        self.targets = torch.arange(48) % 3

    def __len__(self) -> int:
        return 48

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.inputs[index] + torch.rand(()), int(self.targets[index])


SIZES: dict[str, Any] = {"channels": 4, "cells": 1, "epochs": 2, "batch_size": 8, "seed": 3}


@pytest.fixture(scope="module")
def expected() -> ag.SearchResult:
    return ag.search("nasbench201", "gaea", Spectrograms(), **SIZES)


@pytest.mark.parametrize("workers", [1, 3])
def test_any_number_of_workers_gives_the_same_search(workers: int, expected: ag.SearchResult) -> None:
    assert same_bits(ag.search("nasbench201", "gaea", Spectrograms(), workers=workers, **SIZES), expected)
    assert multiprocessing.active_children() == []


SCRIPT = """
import os, signal, sys
import archgrad as ag
from archgrad.callbacks import Callback
sys.path[:0] = sys.argv[2:]
from test_workers import SIZES, Spectrograms

class Stop(Callback):
    def on_step_end(self, search, means):
        if search.index == 4:
            if sys.argv[1] == "9":
                os.kill(os.getpid(), 9)
            os.killpg(0, int(sys.argv[1]))  # as a terminal and a batch system do

try:
    ag.search("nasbench201", "gaea", Spectrograms(), workers=2, out="run", interruptible=True, callbacks=[Stop()],
              **SIZES)
except ag.SearchInterrupted as stopped:
    print(stopped)
"""


@pytest.mark.parametrize(("number", "workers"), [(signal.SIGINT, 3), (signal.SIGKILL, 0)])
def test_a_stopped_search_leaves_no_process_and_resumes_to_the_same_bits(
    number: int, workers: int, expected: ag.SearchResult, tmp_path: Path
) -> None:
    paths = map(str, Path(__file__).parents[:2])
    command = [sys.executable, "-c", textwrap.dedent(SCRIPT), str(int(number)), *paths]
    run = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    out, err = run.communicate(timeout=100)  # ends when no worker holds the pipes any more
    assert err == ""
    assert ("stopped after step" in out) == (number != signal.SIGKILL)
    assert same_bits(ag.resume(tmp_path / "run", data=Spectrograms(), workers=workers), expected)


def test_the_number_of_workers_is_checked(said: list[str]) -> None:
    for wrong in (-1, 257, "two", 1.5, True):
        with pytest.raises(UserError, match="workers is"):
            ag.SearchConfig(workers=wrong)  # type: ignore[arg-type]
    ag.search("nasbench201", "gaea", (Spectrograms().inputs, Spectrograms().targets), workers=2, **SIZES)
    assert "the data is in memory, so no worker processes are started to read it." in said
    assert multiprocessing.active_children() == []
