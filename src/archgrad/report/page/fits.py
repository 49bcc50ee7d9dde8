"""The page of a fit: what won, how it was selected, and what the model gets wrong."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from archgrad.report.page import Cells, ClassRow, Example, Page
from archgrad.report.page.records import RunRecords, number_in, objects_in, read_json, read_run
from archgrad.report.page.trainings import curves_of, round_tables, shown_cell, sizes_of
from archgrad.tasks import MetricInfo

__all__ = ["page_of_fit"]

_MOST_IN_MATRIX = 20
"""With more classes the page lists only the most common mistakes."""
_MOST_MISTAKES = 15
_PICTURE = "data:image/png;base64,"


def page_of_fit(folder: Path) -> Page:
    """Return the page of a fit from its folder; a fit that runs shows what is there so far."""
    content = read_json(folder / "fit.json")
    result, tests, request = (_part(content, name) for name in ("result", "tests", "request"))
    runs, cells = _runs(folder, result), Cells()
    confusion = _confusion(tests)
    return Page(
        title=folder.resolve().name,
        verdict=_verdict(result) or f"The fit is not finished; {len(runs)} of its runs have begun.",
        facts=_facts(folder, result, tests, request),
        classes=_classes(tests),
        confusion=confusion if len(confusion) <= _MOST_IN_MATRIX else (),
        mistakes=_mistakes(_names(tests), confusion),
        examples=[_example(one) for one in objects_in(tests, "worst")],
        tables=round_tables(result),
        found=shown_cell(result, cells),
        notes=_notes(result),
        commands=_commands(folder, request),
        **curves_of(runs, list(runs), cells),
    )


def _part(content: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = content.get(name)
    return found if isinstance(found, Mapping) else {}


def _runs(folder: Path, result: Mapping[str, Any]) -> dict[str, RunRecords]:
    """Return the last training, the search and the trainings of all rounds, those that have begun."""
    names = {"last training": folder / "final", "search": folder / "search"}
    for number, home in reversed(list(enumerate(sorted(folder.glob("round-*")), 1))):
        places = sorted(path for path in home.iterdir() if path.is_dir())
        names |= {f"round {number}: {_candidate(path, result, number)}": path for path in places}
    found = {name: read_run(path) for name, path in names.items() if path.is_dir()}
    return {name: run for name, run in found.items() if run.records}


def _candidate(place: Path, result: Mapping[str, Any], number: int) -> str:
    """Return the name of the network that trained here: that of the round with the same time, or its number."""
    rounds = objects_in(result, "rounds")
    taken = [number_in(one, "seconds") for one in objects_in(read_json(place / "result.json"), "seeds")]
    candidates = objects_in(rounds[number - 1], "candidates") if number <= len(rounds) else []
    names = [str(one.get("name")) for one in candidates if [number_in(one, "seconds")] == taken]
    return names[0][:100] if len(names) == 1 else f"network {place.name}"


def _verdict(result: Mapping[str, Any]) -> str:
    metric, count = MetricInfo.of_record(result), number_in(result, "test_images")
    value = number_in(result, "value" if "value" in result else "accuracy")  # older fits have only the latter
    if value is None or count is None:
        return ""
    ends = [metric.number(one, 2) for one in _list(result, "interval") if isinstance(one, float)]
    interval = f" (95 % interval {ends[0]} to {ends[1]})" if len(ends) == 2 else ""
    network, added = str(result.get("network", "The network"))[:200], str(result.get("verdict", ""))[:500]
    reached = f"{metric.name.replace('_', ' ')[:50]} of {metric.show(value, 2)}"
    return f"{network} reaches a test {reached} on {count:,.0f} images{interval}; {added}."


def _list(content: Mapping[str, Any], name: str) -> list[Any]:
    found = content.get(name)
    return found if isinstance(found, list) else []


def _facts(
    folder: Path, result: Mapping[str, Any], tests: Mapping[str, Any], request: Mapping[str, Any]
) -> list[tuple[str, str]]:
    metric, chance = MetricInfo.of_record(result), number_in(tests, "chance")
    balanced = number_in(result, "balanced_accuracy")
    total, latency = number_in(result, "total"), number_in(tests, "latency")
    parts = ", ".join(
        f"{name} {one / 60:.1f}" for name, one in _part(result, "seconds").items() if isinstance(one, float)
    )
    facts = {
        "if all classes count alike": None if balanced is None else f"{balanced:.2f} %",
        "best constant prediction": None if chance is None else metric.show(chance, 2),
        "epochs": result.get("epochs"),
        **dict(sizes_of(result)),
        "latency": None if latency is None else f"{1000 * latency:.2f} ms for one image, on the machine of the fit",
        "minutes": None if total is None else f"{total / 60:.1f} in all: {parts}",
        "budget": request.get("budget"),
        "data": request.get("data"),
        "test images": request.get("test"),
        "folder": folder,
    }
    return [(name, str(one)[:300]) for name, one in facts.items() if one is not None]


def _names(tests: Mapping[str, Any]) -> list[str]:
    return [str(one)[:60] for one in _list(tests, "classes")]


def _confusion(tests: Mapping[str, Any]) -> list[list[int]]:
    """Return the counts, nothing if they are not those of the classes."""
    rows, count = _list(tests, "confusion"), len(_names(tests))
    whole = len(rows) == count and all(isinstance(row, list) and len(row) == count for row in rows)
    return rows if whole and all(isinstance(one, int) for row in rows for one in row) else []


def _classes(tests: Mapping[str, Any]) -> list[ClassRow]:
    names, confusion = _names(tests), _confusion(tests)
    trained = [one for one in _list(tests, "trained") if isinstance(one, int)]
    known = trained if len(trained) == len(names) else [0] * len(names)
    return [
        ClassRow(name, seen, sum(row), row[at])
        for at, (name, seen, row) in enumerate(zip(names, known, confusion, strict=bool(confusion)))
    ]


def _mistakes(names: list[str], confusion: list[list[int]]) -> list[tuple[str, str, int]]:
    """Return the most common mistakes: true class, what it was called, how often."""
    pairs = [
        (names[true], names[called], count)
        for true, row in enumerate(confusion)
        for called, count in enumerate(row)
        if count and true != called
    ]
    return sorted(pairs, key=lambda pair: -pair[2])[:_MOST_MISTAKES]


def _example(one: Mapping[str, Any]) -> Example:
    image, probability = str(one.get("image", "")), number_in(one, "probability")
    names = [str(one.get(name, ""))[:100] for name in ("true", "called", "name")]
    return Example(names[0], names[1], probability, names[2], image if image.startswith(_PICTURE) else "")


def _notes(result: Mapping[str, Any]) -> list[str]:
    added, compared = result.get("added"), _part(result, "compared").get("verdict")
    found = (result.get("warning"), added, compared)
    return [str(one)[:500] for one in found if one and one != result.get("verdict")]


def _commands(folder: Path, request: Mapping[str, Any]) -> list[str]:
    command = request.get("command")
    model = shlex.quote(str(folder / "model"))
    return [
        *([str(command)[:1000]] if command else []),
        f"archgrad predict {model} IMAGES…",
        f"archgrad export {model} -o model.onnx",
    ]
