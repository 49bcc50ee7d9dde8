"""What run directories say of themselves, read so that a half-written or broken one never stops a page."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from archgrad.config.toml import parse_toml
from archgrad.errors import ArchgradError
from archgrad.report.curves import axis_label
from archgrad.report.page import Cells, Measure, PageRun
from archgrad.system.files import read_text

__all__ = ["HEALTH", "RunRecords", "measures_of", "page_run", "read_run"]

_LONGEST = 200_000_000
_FIRST = ("oracle_", "heldout_", "train_", "arch_", "test_")
HEALTH = ("entropy", "alignment", "eigenvalue", "skips", "train_loss", "heldout_loss")
"""The measures that show what happens inside a search."""
_HIDDEN = ("epoch", "stage", "seconds", "lr", "heldout_images", "heldout_chance", "train_chance", "entropy_max")


@dataclass(frozen=True)
class RunRecords:
    """A run directory: its configuration, the records of its epochs and its summary, each empty if it is not there."""

    folder: Path
    config: Mapping[str, Any]
    records: Sequence[Mapping[str, Any]]
    summary: Mapping[str, Any]

    @property
    def label(self) -> str:
        """The method, or what else the run is named by."""
        return str(self.config.get("method") or self.summary.get("architecture") or self.folder.name)[:100]

    @property
    def finished(self) -> bool:
        """Whether the run has ended."""
        return bool(self.summary)


def read_run(folder: Path) -> RunRecords:
    """Read a run directory; what is missing or damaged is left out."""
    config = _read(folder / "config.toml", lambda text: parse_toml(text, folder / "config.toml"))
    summary = _read(folder / "summary.json", json.loads)
    return RunRecords(folder, config, list(_records(folder / "metrics.jsonl")), summary)


def _read(path: Path, parse: Any) -> dict[str, Any]:
    try:
        found = parse(read_text(path, "file of a run", _LONGEST))
    except (ArchgradError, OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _records(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the records of finished epochs, up to the first line that is not one."""
    try:
        lines = read_text(path, "file of a run", _LONGEST).splitlines()
    except (ArchgradError, OSError):
        return
    for line in lines:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):  # half a last line
            return
        if not isinstance(record, dict) or not isinstance(record.get("epoch"), int):
            return
        yield {name: None if _is_huge(value) else value for name, value in record.items()}


def _is_huge(value: object) -> bool:
    """Tell whether a whole number has more digits than a float can have."""
    return isinstance(value, int) and abs(value) > 10**300


def measures_of(runs: Sequence[RunRecords]) -> list[Measure]:
    """Return the measures of the runs, accuracies first."""
    found = {
        name: None
        for run in runs
        for record in (*run.records[:1], *run.records[-1:])
        for name, value in record.items()
        if name not in _HIDDEN and not name.startswith("probability_") and _is_number(value)
    }
    order = {
        name: next((at for at, start in enumerate(_FIRST) if name.startswith(start)), len(_FIRST)) for name in found
    }
    ranked = sorted(found, key=lambda name: (order[name], "loss" in name))
    return [Measure(name, axis_label(name)) for name in ranked]


def page_run(
    run: RunRecords, name: str, group: int, cells: Cells, measures: Sequence[Measure], every_cell: bool
) -> PageRun:
    """Return a run for a page; without ``every_cell`` only the last of its cells is drawn."""
    records, last = run.records, len(run.records) - 1
    operations = [
        key.removeprefix("probability_") for key in (records[-1] if records else {}) if key.startswith("probability_")
    ]
    return PageRun(
        name=name,
        group=group,
        epochs=[record["epoch"] for record in records],
        seconds=list(accumulate(_number(record.get("seconds")) or 0.0 for record in records)),
        series={one.key: [_number(record.get(one.key)) for record in records] for one in measures},
        operations=operations,
        shares=[[_number(record.get(f"probability_{one}")) for one in operations] for record in records],
        cells=[
            cells.number(_text(record.get("genotype"))) if every_cell or at == last else None
            for at, record in enumerate(records)
        ],
    )  # fmt: skip


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and len(value) < 100_000 else None
