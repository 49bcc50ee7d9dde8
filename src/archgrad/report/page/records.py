"""What run directories say of themselves, read so that a half-written or broken one never stops a page."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

from archgrad.errors import ArchgradError
from archgrad.report.curves import axis_label
from archgrad.report.experiments import experiment_of
from archgrad.report.page import Cells, Measure, PageRun
from archgrad.system.files import read_text
from archgrad.system.run_kind import RUN_FILE
from archgrad.system.toml import parse_toml
from archgrad.tasks import ACCURACY, MetricInfo

__all__ = [
    "HEALTH",
    "RunRecords",
    "find_runs",
    "is_run",
    "kind_of",
    "measures_of",
    "number_in",
    "objects_in",
    "page_run",
    "read_json",
    "read_run",
]

_LONGEST = 200_000_000
_MOST_RUNS, _DEEPEST = 5000, 4
_RESULTS = {"training": "result.json", "selection": "selection.json", "fit": "fit.json"}
"""The file with the result of each kind of run but a search."""
_FIRST = ("oracle_", "heldout_", "train_", "arch_", "test_")
Choice = tuple[str, ...]
HEALTH = ("entropy", "alignment", "eigenvalue", "skips", "train_loss", "heldout_loss")
"""The measures that show what happens inside a search."""
_HIDDEN = ("epoch", "stage", "seconds", "lr", "heldout_images", "heldout_chance", "train_chance", "entropy_max")


@dataclass(frozen=True)
class RunRecords:
    """A run directory: its configuration, the records of its epochs and its summary, each empty if it is not there.

    ``result`` is the file about a training, a selection or a fit.
    """

    folder: Path
    config: Mapping[str, Any]
    records: Sequence[Mapping[str, Any]]
    summary: Mapping[str, Any]
    kind: str = "search"
    result: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The method, or what else the run is named by."""
        return str(self.config.get("method") or self.summary.get("architecture") or self.folder.name)[:100]

    @property
    def experiment(self) -> dict[str, Any]:
        """All that the run depends on, except its seed and the machine."""
        tables = self.config.get("set")
        parts = (
            {name: own for name, own in tables.items() if isinstance(own, Mapping)}
            if isinstance(tables, Mapping)
            else {}
        )
        knobs = {f"{part}.{knob}": value for part, own in parts.items() for knob, value in own.items()}
        return experiment_of(self.config, knobs) | {"method": self.label}

    @property
    def metric(self) -> MetricInfo:
        """The main metric of its task."""
        return MetricInfo.of_record(self.records[-1] if self.records else {})

    @property
    def finished(self) -> bool:
        """Whether the run has ended."""
        return bool(self.result.get("result") if self.kind == "fit" else self.summary or self.result)


def is_run(folder: Path) -> bool:
    """Tell whether a folder is a run directory, or that of a study."""
    return any((folder / name).is_file() for name in (RUN_FILE, "metrics.jsonl", "config.toml", "study.toml"))


def kind_of(folder: Path) -> str:
    """Return what a run directory is: what it says, a study, or a search."""
    said = read_json(folder / RUN_FILE).get("kind")
    return "study" if (folder / "study.toml").is_file() else said if isinstance(said, str) else "search"


def find_runs(folder: Path) -> list[Path]:
    """Return the run directories and studies in a folder, or the folder itself if it is one; links are not followed."""
    return [folder] if is_run(folder) else sorted(_walk(folder))[:_MOST_RUNS]


def _walk(folder: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        here = Path(place)
        if len(here.relative_to(folder).parts) >= _DEEPEST:
            folders.clear()
        if {"metrics.jsonl", RUN_FILE, "study.toml"} & {*names}:
            folders.clear()
            yield here


def read_run(folder: Path) -> RunRecords:
    """Read a run directory; what is missing or damaged is left out."""
    config = _read(folder / "config.toml", lambda text: parse_toml(text, folder / "config.toml"))
    kind = kind_of(folder)
    result = read_json(folder / _RESULTS[kind]) if kind in _RESULTS else {}
    records = list(_records(folder / "metrics.jsonl"))
    summary = _study_summary(folder) if kind == "study" else read_json(folder / "summary.json")
    return RunRecords(folder, config, records, summary, kind, result)


def _study_summary(folder: Path) -> dict[str, Any]:
    """Return the number of runs in a study, nothing if one of them has not ended."""
    runs = [path.parent for path in folder.rglob("metrics.jsonl")]
    return {"runs": len(runs)} if all((run / "summary.json").is_file() for run in runs) else {}


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a file, empty if there is none."""
    return _read(path, json.loads)


def objects_in(content: Any, name: str) -> list[Mapping[str, Any]]:
    """Return the objects in the list under this name, none if it is no list."""
    found = content.get(name) if isinstance(content, Mapping) else None
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


def number_in(content: Any, *names: str) -> float | None:
    """Return the number under these names, one in the other, None if there is none."""
    for name in names:
        content = content.get(name) if isinstance(content, Mapping) else None
    return _number(content)


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
    metric = next((run.metric for run in runs if run.records), ACCURACY)
    return [Measure(name, axis_label(name, metric)) for name in ranked]


def page_run(
    run: RunRecords, name: str, group: int, cells: Cells, measures: Sequence[Measure], every_cell: bool
) -> PageRun:
    """Return a run for a page; without ``every_cell`` only the last of its cells is drawn."""
    records, last = run.records, len(run.records) - 1
    operations = [
        key.removeprefix("probability_") for key in (records[-1] if records else {}) if key.startswith("probability_")
    ]
    choices, mixture = _mixture(run.folder, len(records)) if every_cell and operations else ([], [])
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
        choices=choices,
        mixture=mixture,
    )  # fmt: skip


def _mixture(folder: Path, epochs: int) -> tuple[list[Choice], list[list[float | None]]]:
    """Return the choices of all edges, and their probabilities in each epoch; None where a stage has no such choice."""
    stages = sorted(folder.glob("stage-*/mixture.json"), key=lambda path: (len(path.parent.name), path.parent.name))
    rows = list[dict[Choice, float | None]]()
    for path in stages or [folder / "mixture.json"]:
        content = read_json(path)
        names, found = content.get("choices"), content.get("epochs")
        if not (isinstance(names, list) and isinstance(found, list) and all(map(_is_choice, names))):
            return [], []
        rows += [
            dict(zip(map(tuple, names), map(_number, one), strict=False)) for one in found if isinstance(one, list)
        ]
    both = (name for row in rows[:1] + rows[-1:] for name in row)
    choices = [name for name in dict.fromkeys(both) if not name[0].endswith(".edges")]  # weights of edges: not shown
    return (
        (choices, [[row.get(name) for name in choices] for row in rows[:epochs]]) if len(rows) >= epochs else ([], [])
    )


def _is_choice(name: object) -> bool:
    return isinstance(name, list) and len(name) == 3 and all(isinstance(one, str) for one in name)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and len(value) < 100_000 else None
