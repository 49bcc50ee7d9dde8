"""What tests of commands share: an engine without processes, and runs that several tests have copies of."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.studies.in_process import InProcess


@pytest.fixture
def engine(monkeypatch) -> InProcess:
    """The engine of all commands of a test."""
    found = InProcess()
    monkeypatch.setattr("archgrad.studies.study.make_engine", lambda name, threads, options: found)
    return found


@pytest.fixture(scope="module")
def kept(tmp_path_factory) -> Path:
    """Where a module keeps the runs that its tests copy."""
    return tmp_path_factory.mktemp("kept")
