"""mypy tells weights, α, probabilities and mixtures apart."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import archgrad

SNIPPET = """
from archgrad.autodiff.vectors import added
from archgrad.hypergradients import Hypergradient
from archgrad.bilevel.problem import BilevelProblem
from archgrad.relaxations import expand_to_cells
from archgrad.autodiff.tensors import Alpha, Mixture, Probabilities, Weights

def right(p: Probabilities, w: Weights) -> tuple[Mixture, Weights]:
    return expand_to_cells([], p), added(w, w)

def wrong(p: Probabilities, m: Mixture, w: Weights, a: Alpha, h: Hypergradient, b: BilevelProblem) -> None:
    expand_to_cells([], m)
    h(b, a, w, None, None)
    h(b, w, p, None, None)
"""
CONFIG = (
    "[mypy]\nfollow_imports = silent\n[mypy-torch.*]\nfollow_imports = skip\n[mypy-numpy.*]\nfollow_imports = skip\n"
)


def test_handing_one_for_the_other_is_an_error_of_types(tmp_path: Path) -> None:
    (tmp_path / "snippet.py").write_text(SNIPPET, encoding="utf-8")
    (tmp_path / "mypy.ini").write_text(CONFIG, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "snippet.py"]
    environment = {**os.environ, "MYPYPATH": str(Path(archgrad.__file__).parents[1])}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    found = [line.partition(": error: ")[2] for line in done.stdout.splitlines() if ": error: " in line]
    expected = [("2", "Mixture", "Probabilities"), ("2", "Alpha", "Weights"), ("3", "Weights", "Alpha")]
    expected.append(("3", "Probabilities", "Alpha"))
    assert len(found) == len(expected), done.stdout + done.stderr
    for message, (place, given, wanted) in zip(found, expected, strict=True):
        assert message.startswith(f"Argument {place} to ")
        assert f'has incompatible type "{given}"; expected "{wanted}"' in message
