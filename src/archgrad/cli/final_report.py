"""The report at the end of a search: the diagnosis, the cell, its main metric and size, and the next steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from shlex import quote
from typing import Any

from archgrad.diagnostics import Diagnosis
from archgrad.loop import SearchResult
from archgrad.regularizers import CostPenalty
from archgrad.report import to_text
from archgrad.spaces import Genotype, SearchSpace
from archgrad.spaces.cost import sides
from archgrad.spaces.cost_model import NetworkShape
from archgrad.system.amounts import counted
from archgrad.tables import tables_for
from archgrad.tasks import MetricInfo
from archgrad.workflows.architecture import short_name

__all__ = ["brief", "diagnosis_content", "final_report", "places_in_tables", "show_cell", "show_final_report"]


_REASONS = 3
"""So many reasons of a diagnosis are shown; `archgrad inspect --all` has all of them."""


def diagnosis_content(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return a diagnosis ready for JSON, with its text."""
    return {**asdict(diagnosis), "text": str(diagnosis)}


def brief(content: Mapping[str, Any]) -> str:
    """Return the verdict with its first reasons and the advice."""
    reasons = tuple(content["sentences"][:_REASONS])
    return str(Diagnosis(content["verdict"], content["since"], reasons, content["advice"]))


def show_cell(genotype: str | None) -> str:
    """Draw a cell, above its genotype, or its name if it is a well-known one."""
    if genotype is None:
        return "no cell: all choices tie exactly, so the search has chosen none\n"
    return f"{to_text(Genotype.parse(genotype))}\n{short_name(genotype, 10_000)}\n"


def final_report(result: SearchResult, run: Path) -> dict[str, Any]:
    """Return the diagnosis of a finished search, the size of its networks and the next steps, ready for JSON."""
    diagnosis = result.diagnosis
    return {
        "diagnosis": diagnosis_content(diagnosis),
        "sizes": {} if result.undecided else _sizes(result),
        "budgets": [] if result.undecided else _budgets(result),
        "table": [] if result.undecided else places_in_tables(result.space, result.history[-1]),
        "next": _next(diagnosis.verdict, result, run),
        "run": str(run),
    }


def show_final_report(summary: Mapping[str, Any]) -> str:
    """Format the report: the diagnosis, the cell, what is known of it, and what to do next."""
    facts = [f"{name:<10} {text}" for name, text in _facts(summary)]
    found = f"found in {counted(summary['seconds'], 'second', '.0f')}; everything is in {summary['run']}"
    following = ["", "next", *(f"  {step}" for step in summary["next"])]
    return "\n".join([brief(summary["diagnosis"]), "", show_cell(summary["genotype"]), *facts, found, *following])


def _facts(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    last, facts = summary["last_epoch"], []
    metric = MetricInfo.of_record(last)
    mixture, one = (last.get(f"{kind}_{metric.name}") for kind in ("mixture", "discrete"))
    if mixture is not None and one is not None:
        told = f"{metric.show(mixture)} with the mixture, {metric.show(one)} with this cell and the same weights"
        facts.append((metric.name, told))
    facts += [("size", f"{size} {where}") for where, size in summary["sizes"].items()]
    facts += [("budget", text) for text in summary["budgets"]]
    return [*facts, *(("table", text) for text in summary["table"])]


def _sizes(result: SearchResult) -> dict[str, str]:
    """Return the cost of the cell's network at the searched size, and at the size of published results.

    The second is for images of the published size, so that you can compare it with the papers.
    """
    searched, data = result.space, result.stages.whole.data
    sizes: dict[str, tuple[SearchSpace, dict[str, Any]]] = {
        "as searched": (searched, {"input_channels": data.channels, "image_size": data.shape[1:]})
    }
    if searched.compared_at:
        wanted: dict[str, Any] = dict(searched.compared_at)
        published = replace(searched, **wanted), {"input_channels": 3, "image_size": 32}
        sizes["at the size of published results"] = published
    outputs = result.stages.whole.outputs
    return {
        f"{what}, {_size_of(sized, images)}": str(sized.cost(result.genotype, num_classes=outputs, **images))
        for what, (sized, images) in sizes.items()
    }


def _budgets(result: SearchResult) -> list[str]:
    """Return the cost of the cell's network against each target that the search was given."""
    whole = result.stages.whole
    shape = NetworkShape(whole.outputs, whole.data.channels, whole.data.shape[1:])
    penalties = [part for part in whole.parts.method.regularizers if isinstance(part, CostPenalty)]
    return [part.compare(whole.space, result.genotype, shape) for part in penalties]


def places_in_tables(space: SearchSpace, accuracies: Mapping[str, Any]) -> list[str]:
    """Return for each accuracy of an architecture in a table how many of all are worse."""
    found = list[str]()
    for table in tables_for(space.name):
        for measure, accuracy in accuracies.items():
            values = table.values(space, measure) if measure.startswith("oracle_") else None
            if values:
                worse = 100 * sum(value < accuracy for value in values) / len(values)
                name = measure.removeprefix("oracle_").replace("_", " ")
                found.append(f"{accuracy:.2f} % {name}; {worse:.1f} % of all {len(values):,} architectures are worse")
    return found


def _size_of(space: SearchSpace, images: Mapping[str, Any]) -> str:
    depth = getattr(space, space.depth_knob)
    cells = {"cells_per_stage": "per stage", "cells": "in total"}.get(space.depth_knob, space.depth_knob)
    pixels = "{}×{} pixels".format(*sides(images["image_size"]))
    return f"{counted(space.channels, 'channel')} and {counted(depth, 'cell')} {cells}, {pixels}"


def _next(verdict: str, result: SearchResult, run: Path) -> list[str]:
    """Return the next commands to run, each with a comment."""
    steps, config, place = dict[str, str](), result.stages.whole.config, quote(str(run))
    if not result.undecided:
        steps[f"archgrad train {place}"] = "train its network, and test it"
        for table in tables_for(str(config.space)):
            if table.is_available() and table.has_form_of(result.genotype):
                steps[f"archgrad query {place}"] = f"its accuracy in the {table.title} table"
    if verdict == "healthy":
        again = f"archgrad search --config {quote(str(run / 'config.toml'))} --seed {config.seed + 1} --voters 4"
        steps[again] = "what do four more seeds agree on?"
    steps[f"archgrad inspect {place}"] = "curves of the search"
    width = max(map(len, steps))
    return [f"{command:<{width}}  # {why}" for command, why in steps.items()]
