"""Wrong and odd command lines: each ends with a result or a sentence, never with a traceback or a hang."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from tests.cli.fuzz import run_line, stub_training, try_lines

COUNT = 2000


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch.compile
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs FIFOs")
def test_no_line_ends_in_a_traceback_or_a_hang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stub_training(monkeypatch.setattr)
    monkeypatch.setattr(sys, "argv", sys.argv)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("ARCHGRAD_DATA", raising=False)
    threads = torch.get_num_threads()
    counts, bad = try_lines(COUNT, 0, tmp_path)
    torch.set_num_threads(threads)
    assert not bad, "\n".join(bad)
    assert counts["ok"] >= COUNT // 20
    assert counts["sentence"] >= COUNT // 2


def test_the_runner_tells_a_hang_and_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def hang() -> None:
        while True:
            pass

    monkeypatch.setattr(sys, "argv", sys.argv)
    monkeypatch.setattr("tests.cli.fuzz.main", hang)
    assert run_line([], seconds=0.1).kind == "hang"
    monkeypatch.setattr("tests.cli.fuzz.main", lambda: 1 / 0)
    assert run_line([]).kind == "traceback"
    monkeypatch.setattr("tests.cli.fuzz.main", lambda: sys.stdout.write("\x1b[31m"))
    assert run_line([]).kind == "raw output"
