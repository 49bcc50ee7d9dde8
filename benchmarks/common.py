"""What the scripts share: sizes, timing in turns, the memory of a fresh process, tables and JSON."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import torch

from archgrad.spaces import SPACES, SearchSpace

__all__ = ["Case", "Report", "growth", "in_new_process", "options", "peak_memory", "times"]

Step = Callable[[], object]
T = TypeVar("T")
PATIENCE = 30.0
"""After so many seconds a step is not repeated any more."""


@dataclass(frozen=True)
class Case:
    """A space at a size, with a batch."""

    space: str
    channels: int
    cells: int
    image_size: int
    batch: int

    def build(self) -> SearchSpace:
        """Return the space."""
        space = SPACES.constructor(self.space)()
        sizes: dict[str, Any] = {"channels": self.channels, space.depth_knob: self.cells}
        return replace(space, **sizes)

    def tiny(self) -> Case:
        """Return the smallest size that runs: to see that a script works, not to measure."""
        return Case(self.space, 4, 1 if self.space == "nasbench201" else 3, 8, 4)


@dataclass(frozen=True)
class Options:
    """What was asked for; ``memory`` takes a process for each number, so that a tiny run leaves it out."""

    cases: list[Case]
    repeats: int
    memory: bool
    json: Path | None


def options(about: str | None, cases: Sequence[Case], arguments: Sequence[str] | None = None) -> Options:
    """Parse a script's options, and compute on one thread from now on."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = list(dict.fromkeys(case.space for case in cases))
    parser.add_argument("--space", choices=names, help="measure this space only")
    parser.add_argument("--repeats", type=int, default=5, help="runs of every step; the fastest counts [5]")
    parser.add_argument("--tiny", action="store_true", help="one run at the smallest size, to see that it works")
    parser.add_argument("--json", type=Path, metavar="FILE", help="store the rows")
    given = parser.parse_args(arguments)
    chosen = [case for case in cases if given.space in (None, case.space)]
    torch.set_num_threads(1)
    if given.tiny:
        return Options([chosen[0].tiny()], 0, False, given.json)
    return Options(chosen, given.repeats, True, given.json)


def times(steps: Sequence[Step], repeats: int) -> list[float]:
    """Return the milliseconds of each step: the fastest of ``repeats`` turns after one to warm up, or that one."""
    taken: list[list[float]] = [[] for _ in steps]
    began = time.process_time()
    for turn in range(repeats + 1):
        if turn > 1 and time.process_time() - began > PATIENCE * len(steps):
            break
        for step, found in zip(steps, taken, strict=True):
            before = time.process_time()
            step()
            found.append(time.process_time() - before)
    return [1e3 * min(found[1:] or found) for found in taken]


def in_new_process(measure: Callable[..., T], *arguments: object) -> T:
    """Return what ``measure`` returns in a fresh process, whose memory nothing else has touched."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(measure, arguments)


def growth(step: Step) -> float:
    """Return by how many megabytes two steps raise the peak resident size of this process."""
    torch.set_num_threads(1)
    before = peak_memory()
    step()
    step()
    return peak_memory() - before


def peak_memory() -> float:
    """Return the peak resident size of this process in megabytes, as Linux reports it.

    ``getrusage`` would count the parent's peak too.
    """
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


class Report:
    """Prints rows as they come, and stores them at the end. A new set of columns begins a new table."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def add(self, **row: Any) -> None:
        """Print one row; its texts stand left, its numbers right."""
        if not self.rows or list(self.rows[-1]) != list(row):
            print("\n" + "  ".join(_aligned(name, name, row[name]) for name in row), flush=True)
        print("  ".join(_aligned(_shown(value), name, value) for name, value in row.items()), flush=True)
        self.rows.append(row)

    def store(self, path: Path | None) -> None:
        """Write the rows as JSON, where a file is asked for."""
        if path is not None:
            path.write_text(json.dumps({"torch": torch.__version__, "rows": self.rows}, indent=1), encoding="utf-8")


def _shown(value: Any) -> str:
    return "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def _aligned(text: str, name: str, value: Any) -> str:
    return text.ljust(max(28, len(name))) if isinstance(value, str) else text.rjust(max(8, len(name)))
