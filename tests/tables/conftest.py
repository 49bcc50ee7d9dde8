"""A small NAS-Bench-101 file, and the table that is made of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from records101 import converted, small


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return small(tmp_path / "small.tfrecord")


@pytest.fixture
def parquet(source: Path) -> Path:
    return converted(source)
