"""A small NAS-Bench-101 file, and a cache of its own for every test."""

from __future__ import annotations

from pathlib import Path

import pytest
from records101 import small


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ARCHGRAD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return small(tmp_path / "small.tfrecord")
