from __future__ import annotations

import gc
import logging
import os
import signal
import sys
from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from pathlib import Path

import pytest
import torch
import typer.main
from sklearn import datasets

from archgrad.cli import main
from archgrad.system.warn_once import forget_warnings
from tests.studies.in_process import InProcess


def pytest_configure() -> None:
    """Read the digits and build the command once, and let no test wait for the disk: half of a tiny search is these."""
    load, digits = datasets.load_digits, datasets.load_digits()
    datasets.load_digits = lambda **options: load(**options) if options else deepcopy(digits)
    typer.main.get_command = cache(typer.main.get_command)
    os.fsync = os.fstat
    gc.set_threshold(20_000, 10, 10)


def pytest_collection_finish() -> None:
    """Look for garbage not among what is imported and collected, and rarely: a tenth of the time went to that."""
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    """The networks of the tests are so small that a second thread only waits; no search measures whether."""
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"


@pytest.fixture(autouse=True, scope="session")
def _signals() -> None:
    """Processes in the background ignore Ctrl-C, and so would every search in them."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


class Command:
    """The command as a user types it; a call returns its exit code, what it prints, and its errors."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self.capsys, self.monkeypatch = capsys, monkeypatch

    def __call__(self, *arguments: object) -> tuple[int, str, str]:
        self.monkeypatch.setattr(sys, "argv", ["archgrad", *map(str, arguments)])
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        out, err = self.capsys.readouterr()
        return code, out, err

    def run(self, *arguments: object) -> str:
        """Return what a command prints that must succeed."""
        code, out, err = self(*arguments)
        assert code == 0, err
        return out

    def error(self, *arguments: object) -> str:
        """Return the sentence of a command that must be refused, as a mistake of the user."""
        code, _, err = self(*arguments)
        assert (code, "Traceback" in err) == (2, False), err
        return err


@pytest.fixture
def archgrad(capsys, monkeypatch, tmp_path) -> Iterator[Command]:
    """Run commands in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ARCHGRAD_DATA", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # no time is taken to find the best number of threads
    threads = torch.get_num_threads()
    yield Command(capsys, monkeypatch)
    torch.set_num_threads(threads)


@pytest.fixture
def said() -> Iterator[list[str]]:
    """What the package warns of."""
    forget_warnings()
    messages: list[str] = []
    handler, logger = logging.Handler(), logging.getLogger("archgrad")
    handler.emit = lambda record: messages.append(record.getMessage())  # type: ignore[method-assign]
    logger.addHandler(handler)
    yield messages
    logger.removeHandler(handler)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> InProcess:
    """The engine of all commands of a test, without processes."""
    found = InProcess()
    monkeypatch.setattr("archgrad.studies.study.make_engine", lambda name, threads, options: found)
    return found


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a module keeps the runs that its tests copy."""
    return tmp_path_factory.mktemp("kept")
