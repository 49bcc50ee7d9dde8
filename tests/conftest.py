from __future__ import annotations

import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    """The networks of the tests are so small that a second thread only waits."""
    torch.set_num_threads(1)
