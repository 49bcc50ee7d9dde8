"""The page of one or several runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Any

from archgrad.errors import UserError
from archgrad.report.curves import Curve, curve_of
from archgrad.report.experiments import labels_of
from archgrad.report.page import Cells, FoundCell, Group, Listing, Page, PageRun
from archgrad.report.page.records import HEALTH, RunRecords, measures_of, number_in, objects_in, page_run, read_run

__all__ = ["band", "bands_of", "listing", "page_of_runs"]

_SHOWN = (
    "method",
    "space",
    "data",
    "task",
    "seed",
    "epochs",
    "channels",
    "cells",
    "batch_size",
    "limit",
    "image_size",
    "threads",
)
"""The options that a page names."""
_MOST_WITH_EVERY_CELL = 12
"""Of so many runs the cell of every epoch is drawn, of more only the last."""


def page_of_runs(folders: Sequence[Path], title: str | None = None) -> Page:
    """Return the page of run directories; runs that differ only in their seeds share a color."""
    runs = [read_run(folder) for folder in folders]
    if not any(run.records or run.config for run in runs):
        raise UserError(
            f"{str(folders[0])[:150]} is not a run directory: it has neither config.toml nor "
            f"metrics.jsonl; give run directories, or the folder of a study."
        )
    cells, measures = Cells(), measures_of(runs)
    labels = labels_of([run.experiment for run in runs])
    groups = list(dict.fromkeys(labels))
    numbered = [(groups.index(label), run) for label, run in zip(labels, runs, strict=True)]
    drawn = [
        page_run(run, _name(run, runs), group, cells, measures, len(runs) <= _MOST_WITH_EVERY_CELL)
        for group, run in numbered
    ]
    named = [(group, run) for group, run in numbered if run.records]
    return Page(
        title=title or (drawn[0].name if len(runs) == 1 else f"{len(runs)} runs"),
        verdict=_verdict(runs),
        facts=_facts(runs[0]) if len(runs) == 1 else _shared_facts(runs),
        measures=measures,
        health=[name for name in HEALTH if any(one.key == name for one in measures)],
        groups=[Group(name[:300]) for name in groups],
        runs=drawn,
        bands={"epochs": bands_of(named, [one.key for one in measures])} if len(groups) < len(runs) else {},
        found=_found(runs, drawn, cells),
        cells=cells.drawn,
        findings=[f"{one.name}: {text}" for one, run in zip(drawn, runs, strict=True) if (text := _finding(run))],
        commands=[f"archgrad inspect {quote(str(run.folder))}" for run in runs[:20]],
    )


def bands_of(runs: Sequence[tuple[int, RunRecords]], measures: Sequence[str]) -> dict[str, Any]:
    """Return mean and 95 % interval (Student's t) by epoch of every group; ``runs`` are groups and their runs."""
    histories: dict[int, list[Sequence[Mapping[str, Any]]]] = {}
    for group, run in runs:
        histories.setdefault(group, []).append(run.records)
    return {key: [_band(group, curve_of(own, key)) for group, own in histories.items()] for key in measures}


def _band(group: int, curve: Curve) -> dict[str, Any]:
    half = [point.interval or 0.0 for point in curve]
    means = [point.mean for point in curve]
    lows, highs = ([middle + side * one for middle, one in zip(means, half, strict=True)] for side in (-1, 1))
    return band(group, [point.epoch for point in curve], means, lows, highs)


def band(
    group: int, x: Sequence[float], mean: Sequence[float], low: Sequence[float], high: Sequence[float]
) -> dict[str, Any]:
    """Return a curve of a group with its band, as the page draws it."""
    return {"group": group, "x": x, "mean": mean, "low": low, "high": high}


def listing(home: Path, runs: Sequence[RunRecords], links: Mapping[Path, str]) -> Listing:
    """Return the list of runs, by their paths below ``home``; ``links`` are the addresses of their pages."""
    unit = " (%)" if all(run.metric.unit == "%" for run in runs) else ""
    numbers = (f"held-out{unit}", "in the table (%)", f"test{unit}", "skips", "seconds")
    rows = [{"cells": _row(home, run), "link": links.get(run.folder, "")} for run in runs]
    return Listing(("run", "kind", "state", "epoch", *numbers), rows)


def _row(home: Path, run: RunRecords) -> list[Any]:
    last = run.records[-1] if run.records else {}
    oracle = next((name for name in last if name.startswith("oracle_")), "")
    tested = number_in(run.result, "test", "mean") or number_in(run.result, "result", "accuracy")
    parts = run.records or objects_in(run.result, "seeds")
    seconds = number_in(run.result, "result", "total") or sum(number_in(one, "seconds") or 0 for one in parts)
    begun = run.records or run.kind != "search"
    state = "finished" if run.finished else "begun" if begun else "waiting"
    epoch = number_in(last, "epoch") or number_in(run.result, "epochs")
    held_out = number_in(last, f"heldout_{run.metric.name}") or number_in(run.result, "heldout", "mean")
    numbers = [epoch, held_out, number_in(last, oracle)]
    name = str(run.folder.relative_to(home))[:200]
    return [name, run.kind, state, *numbers, tested, number_in(last, "skips"), seconds]


def _name(run: RunRecords, runs: Sequence[RunRecords]) -> str:
    seed = run.config.get("seed")
    name = run.label if seed is None else f"{run.label}, seed {seed}"
    same = [other for other in runs if (other.label, other.config.get("seed")) == (run.label, seed)]
    return name if len(same) == 1 else f"{name} ({run.folder.name})"


def _verdict(runs: Sequence[RunRecords]) -> str:
    """Return the state of the runs in one sentence."""
    if len(runs) > 1:
        finished = sum(run.finished for run in runs)
        return f"{finished} of {len(runs)} runs are finished."
    run = runs[0]
    if not run.records:
        return f"{run.label}: no epoch is finished yet."
    last, epochs = run.records[-1], run.config.get("epochs")
    state = "finished" if run.finished else f"at epoch {last['epoch']}" + (f" of {epochs}" if epochs else "")
    said = [f"{run.label} is {state}"]
    said += [f"held-out accuracy {last['heldout_accuracy']:.1f} %"] if _is(last, "heldout_accuracy") else []
    said += (
        [f"{last['oracle_cifar10_test_200ep']:.2f} % in the table"] if _is(last, "oracle_cifar10_test_200ep") else []
    )
    said += [f"diagnosis: {last['diagnosis']}"] if isinstance(last.get("diagnosis"), str) else []
    return ", ".join(said) + "."


def _is(record: Any, name: str) -> bool:
    return isinstance(record.get(name), int | float)


def _facts(run: RunRecords) -> list[tuple[str, str]]:
    facts = [(name.replace("_", " "), str(run.config[name])[:200]) for name in _SHOWN if name in run.config]
    return [*facts, ("folder", str(run.folder)[:300])]


def _shared_facts(runs: Sequence[RunRecords]) -> list[tuple[str, str]]:
    """Return the options that all runs share, and name those in which they differ."""
    same = [name for name in _SHOWN if len({str(run.config.get(name)) for run in runs}) == 1 and name in runs[0].config]
    differ = [name for name in _SHOWN if len({str(run.config.get(name)) for run in runs}) > 1]
    facts = [(name.replace("_", " "), str(runs[0].config[name])[:200]) for name in same]
    return [*facts, ("what differs", ", ".join(differ) or "nothing")]


def _found(runs: Sequence[RunRecords], drawn: Sequence[PageRun], cells: Cells) -> list[FoundCell]:
    """Return the last cell of every run, one card for each architecture."""
    cards: dict[int, list[str]] = {}
    about: dict[int, str] = {}
    for run, one in zip(runs, drawn, strict=True):
        number = next((cell for cell in reversed(one.cells) if cell is not None), None)
        if number is None:
            continue
        cards.setdefault(number, []).append(one.name)
        last = run.records[-1]
        tables = [
            f"{name.split('_')[1]} {last[name]:.2f} %"
            for name in last
            if name.startswith("oracle_") and _is(last, name)
        ]
        skips = [f"{last['skips']} skip connections"] if isinstance(last.get("skips"), int) else []
        about[number] = ", ".join([*tables[:3], *skips])
    return [FoundCell(", ".join(names)[:300], about[number], number) for number, names in cards.items()]


def _finding(run: RunRecords) -> str:
    last = run.records[-1] if run.records else {}
    found = last.get("diagnosis")
    return found if isinstance(found, str) else ""
