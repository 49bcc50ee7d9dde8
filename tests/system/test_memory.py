"""How much memory there is, and what is refused for want of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from archgrad.errors import UserError
from archgrad.system import memory


def test_the_limit_of_a_container_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = memory.total_memory()
    assert 2**28 < machine < 2**62
    for content, expected in (("1000000\n", 1_000_000), ("max\n", None), ("9223372036854771712\n", None)):
        (tmp_path / "limit").write_text(content)
        monkeypatch.setattr(memory, "_CGROUPS", (str(tmp_path / "limit"), "/nowhere"))
        assert memory.total_memory() <= machine if expected is None else memory.total_memory() == expected


def test_more_than_there_is_is_refused() -> None:
    memory.check_memory("this", 10, "wait", available=10)
    with pytest.raises(UserError, match=r"this would take at least 3 GB of memory, but there are 1.0 GB; wait\."):
        memory.check_memory("this", 3 * 2**30, "wait", available=2**30)
