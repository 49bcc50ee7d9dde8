from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

WORKER = Path(__file__).with_name("worker.py")


@pytest.fixture(scope="session", params=[2, 3], ids=["2 processes", "3 processes"])
def ranks(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each of several processes found; they are started once, which takes seconds."""
    folder, size = tmp_path_factory.mktemp("processes"), request.param
    started = [
        subprocess.Popen([sys.executable, WORKER, str(rank), str(size), str(folder)], stderr=subprocess.PIPE, text=True)
        for rank in range(size)
    ]
    errors = [process.communicate(timeout=200)[1] for process in started]
    assert [process.returncode for process in started] == [0] * size, errors
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(size)]
