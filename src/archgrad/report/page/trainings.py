"""The pages of trainings and selections."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from archgrad.report.page import Cells, FoundCell, Group, Page, PageTable
from archgrad.report.page.records import RunRecords, measures_of, number_in, objects_in, page_run, read_json, read_run
from archgrad.report.page.runs import bands_of
from archgrad.spaces import KNOWN_NETWORKS
from archgrad.tasks import MetricInfo

__all__ = ["curves_of", "page_of_training", "round_tables", "shown_cell", "sizes_of"]

_REPEATED = (
    "data", "data_dir", "image_size", "resize", "limit", "task", "epochs", "channels", "cells", "held_out", "device",
    "precision", "threads",
)  # fmt: skip
"""The options that a command to repeat a training names."""
_LONGEST = 2000
_ACCURACIES = ("heldout_accuracy", "train_accuracy")
_NOT_REPEATED = ("", "cpu", "32", "crop", "cifar", "classification", "none", None)
"""Defaults, and a name for no test images."""


def page_of_training(folder: Path) -> Page:
    """Return the page of a training with one or several seeds, or of a selection with its rounds."""
    run = read_run(folder)
    selection = run.result if run.kind == "selection" else {}
    departures = selection.get("departures")
    home = folder / "final" if run.kind == "selection" else folder
    content = selection.get("final") if selection else run.result
    result: Mapping[str, Any] = content if isinstance(content, Mapping) else read_json(home / "result.json")
    seeds = [path for path in sorted(home.glob("seed-*")) if path.is_dir()] or [home]
    runs = [read_run(path) for path in seeds]
    named = {f"{'last training' if selection else 'training'}, {_seed(one)}": one for one in runs}
    groups, cells = ["last training" if selection else "training"] * len(runs), Cells()
    return Page(
        title=folder.resolve().name,
        verdict=_verdict(run, runs, result),
        facts=[*sizes_of(result), *_facts(run)],
        found=shown_cell(result, cells),
        tables=[*_seed_table(result), *round_tables(selection)],
        commands=_commands(run),
        notes=[str(one)[:300] for one in departures] if isinstance(departures, list) else [],
        **curves_of(named, groups, cells),
    )


def curves_of(runs: Mapping[str, RunRecords], groups: Sequence[str], cells: Cells) -> dict[str, Any]:
    """Return what a page needs for the curves of named runs, each in its group."""
    having = {name: sum(name in run.records[-1] for run in runs.values() if run.records) for name in _ACCURACIES}
    measures = sorted(measures_of(list(runs.values())), key=lambda one: -having.get(one.key, 0))  # what most runs have
    names = list(dict.fromkeys(groups))
    numbered = [names.index(group) for group in groups]
    drawn = [
        page_run(run, name, at, cells, measures, True) for at, (name, run) in zip(numbered, runs.items(), strict=True)
    ]
    several = len(names) < len(runs)
    bands = bands_of(list(zip(numbered, runs.values(), strict=True)), [one.key for one in measures]) if several else {}
    return {
        "measures": measures, "groups": [Group(name) for name in names], "runs": drawn, "cells": cells.drawn,
        "bands": {"epochs": bands} if several else {},
    }  # fmt: skip


def sizes_of(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the size of a network as facts."""
    shown = {"parameters": (1e6, " M"), "multiply_adds": (1e6, " M"), "channels": (1, ""), "depth": (1, "")}
    found = [(name, number_in(result, name), *how) for name, how in shown.items()]
    return [(name.replace("_", "-"), f"{value / by:.4g}{unit}") for name, value, by, unit in found if value is not None]


def shown_cell(result: Mapping[str, Any], cells: Cells) -> list[FoundCell]:
    """Return the drawn architecture; a network without a cell has none."""
    text = result.get("genotype")
    number = cells.number(text) if isinstance(text, str) and len(text) < 100_000 and not text.startswith("{") else None
    return [] if number is None else [FoundCell("The cell of the network", "", number)]


def round_tables(result: Mapping[str, Any]) -> list[PageTable]:
    """Return a table for each round of a selection, the best candidate first."""
    rounds = objects_in(result, "rounds")
    return [_round(number, len(rounds), one) for number, one in enumerate(rounds, 1)]


def _round(number: int, count: int, done: Mapping[str, Any]) -> PageTable:
    metric = MetricInfo.of_record(done)
    rows = [
        (str(one.get("name"))[:200], _value(metric, number_in(one, "heldout")),
         *(_shown(number_in(one, name), 0) for name in ("epochs", "seconds")),
         "goes on" if at < (number_in(done, "kept") or 0) else "")
        for at, one in enumerate(objects_in(done, "candidates"))
    ]  # fmt: skip
    columns = ("network", f"held-out {metric.name.replace('_', ' ')[:50]}", "epochs", "seconds", "then")
    note = "Images that trained nothing rank the networks, the best first." if number == 1 else ""
    return PageTable(f"Round {number} of {count}", columns, rows, note)


def _value(metric: MetricInfo, value: float | None) -> str:
    return "–" if value is None else metric.show(value, 2)


def _shown(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _verdict(run: RunRecords, runs: Sequence[RunRecords], result: Mapping[str, Any]) -> str:
    """Say in a sentence what the network reaches, or how far the training is."""
    known = [part for part in ("test", "heldout") if number_in(result, part, "mean") is not None]
    if not known:
        last = runs[-1].records[-1] if runs[-1].records else {}
        epochs = number_in(run.config, "epochs")
        total = f" of {epochs:.0f}" if epochs else ""
        return f"The training is at epoch {number_in(last, 'epoch') or 0:.0f}{total}."
    part, count = known[0], len(objects_in(result, "seeds"))
    mean, spread = number_in(result, part, "mean"), number_in(result, part, "std")
    value = f"{mean:.2f}" + ("" if spread is None else f" ± {spread:.2f}") + f" {result.get('unit', '')}".rstrip()
    images, over = "test" if part == "test" else "held-out", f", mean ± std over {count} seeds" if count > 1 else ""
    return f"The network reaches a {images} {result.get('metric', 'accuracy')} of {value}{over}."


def _facts(run: RunRecords) -> list[tuple[str, str]]:
    config, plan = run.config, read_json(run.folder / "training.json")
    facts = {"epochs": config.get("epochs"), "preset": plan.get("preset"), "data": config.get("data")}
    seeds = objects_in(run.result.get("final", run.result), "seeds")
    total = sum(number_in(one, "seconds") or 0 for one in seeds)
    facts |= {"minutes": f"{total / 60:.1f}" if total else None, "folder": run.folder}
    return [(name, str(one)[:300]) for name, one in facts.items() if one is not None]


def _seed(run: RunRecords) -> str:
    return f"seed {run.config.get('seed', run.folder.name)}"


def _seed_table(result: Mapping[str, Any]) -> list[PageTable]:
    seeds = objects_in(result, "seeds")
    metric = str(result.get("metric", ""))
    parts = [part for part in ("heldout", "test") if any(number_in(one, part, metric) is not None for one in seeds)]
    titles = {"heldout": "held-out", "test": "test"}
    columns = ("seed", *(f"{titles[part]} {metric}" for part in parts), "seconds")
    rows = list[tuple[str, ...]]()
    for one in seeds:
        values = (_shown(number_in(one, part, metric), 2) for part in parts)
        rows.append((str(one.get("seed")), *values, _shown(number_in(one, "seconds"), 1)))
    return [PageTable("Seeds", columns, rows)] if len(rows) > 1 else []


def _commands(run: RunRecords) -> list[str]:
    """Return what shows the training, and what repeats it, if its data can be named."""
    shown = [f"archgrad report {shlex.quote(str(run.folder))}"]
    settings = run.config.get("set")
    network, weights = (settings.get(one) if isinstance(settings, Mapping) else None for one in ("space", "weights"))
    if run.kind != "training" or run.config.get("needs") or not isinstance(network, Mapping):
        return shown
    plan = read_json(run.folder / "training.json")
    seeds = plan.get("seeds")
    options = {name: run.config.get(name) for name in _REPEATED}
    space, test = network.get("of"), plan.get("test")
    architecture = str(space if space in KNOWN_NETWORKS else network.get("architecture"))
    own = plan.get("set")
    given = {
        "space": space if space != architecture else None,
        "stem": network.get("stem"),
        "start_from": network.get("start_from"),
        "batch_size": weights.get("batch_size") if isinstance(weights, Mapping) else None,
        "test": test if isinstance(test, str) else None,
        "preset": plan.get("preset"),
        "seeds": len(seeds) if isinstance(seeds, list) else 1,
    }
    words = [
        word
        for name, value in {**given, **options, "seed": run.config.get("seed")}.items()
        if value not in _NOT_REPEATED
        for word in (f"--{name.replace('_', '-')}", str(value))
    ]
    for path, value in own.items() if isinstance(own, Mapping) else ():
        words += ["--set", f"{path}={value if isinstance(value, str) else json.dumps(value)}"]
    return [shlex.join(["archgrad", "train", architecture, *words])[:_LONGEST], *shown]
