from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from forked import Forked
from worker import work


@pytest.fixture(scope="session", params=[2, 3], ids=["2 processes", "3 processes"])
def ranks(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each of several processes found; they are started once, which takes seconds."""
    folder, size = tmp_path_factory.mktemp("processes"), request.param
    settings = {"OMP_NUM_THREADS": "1"}
    started = [Forked(partial(work, rank, size, folder), folder, settings, at_once=True) for rank in range(size)]
    ends = [process.end() for process in started]
    assert [code for code, *_ in ends] == [0] * size, ends
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(size)]
