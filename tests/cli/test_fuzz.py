"""Wrong and odd command lines: each ends with a result or a sentence, never with a traceback or a hang."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from tests.cli.fuzz import Outcome, run_line, stub_training, try_lines

COUNT = 2000


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch.compile
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc and FIFOs")
def test_no_line_ends_in_a_traceback_or_a_hang(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record_property: pytest.FixtureRequest
) -> None:
    stub_training(monkeypatch.setattr)
    monkeypatch.setattr(sys, "argv", sys.argv)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("ARCHGRAD_DATA", raising=False)
    bad: list[str] = []

    def tell(line: list[str], outcome: Outcome) -> None:
        if outcome.kind not in ("ok", "sentence"):
            bad.append(f"{outcome.kind}: {outcome.detail} <- {line!r:.300}")

    threads = torch.get_num_threads()
    counts = try_lines(COUNT, 0, tmp_path, tell)
    torch.set_num_threads(threads)
    record_property("outcomes", dict(counts))  # type: ignore[operator]
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
