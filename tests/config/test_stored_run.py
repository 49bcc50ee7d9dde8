"""A run that this format was written by stays readable: it goes on to its end.

``tests/stored/make.py`` has made it. If it can no longer be read, the format has changed: give the format another
number (``checkpoint.py``, ``config/toml.py``), say so in the changelog, and make a new one.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import archgrad as ag

STORED = Path(__file__).parents[1] / "stored" / "run-1"


def test_a_stored_run_is_resumed(tmp_path: Path, archgrad: Any) -> None:
    shutil.copytree(STORED, tmp_path / "run")
    result = ag.resume(tmp_path / "run")
    assert [record["epoch"] for record in result.history] == [1, 2]
    before = json.loads((STORED / "metrics.jsonl").read_text(encoding="utf-8"))
    assert result.history[0] == before
    assert "gaea on nasbench201, digits, seed 0: 2 of 2 epochs" in archgrad.run("inspect", tmp_path / "run")
