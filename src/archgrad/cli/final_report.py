"""The report at the end of a search: the diagnosis, the cell, its main metric and size, and the next steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archgrad.system.amounts import counted

if TYPE_CHECKING:
    from archgrad.loop import SearchResult
    from archgrad.spaces import SearchSpace

__all__ = ["final_report", "show_final_report"]


def final_report(result: SearchResult, run: Path) -> dict[str, Any]:
    """Return the diagnosis of a finished search, the size of its networks and the next steps, ready for JSON."""
    diagnosis = result.diagnosis
    return {
        "diagnosis": {"verdict": diagnosis.verdict, "text": str(diagnosis), "evidence": diagnosis.evidence},
        "sizes": {} if result.undecided else _sizes(result),
        "budgets": [] if result.undecided else _budgets(result),
        "next": _next(diagnosis.verdict, result, run),
        "run": str(run),
    }


def show_final_report(summary: Mapping[str, Any]) -> str:
    """Format the report, diagnosis first."""
    from archgrad import report
    from archgrad.spaces import Genotype

    lines = [summary["diagnosis"]["text"], ""]
    if summary["genotype"] is None:
        lines.append("no cell: all choices tie exactly, so the search has chosen none\n")
    else:
        genotype = Genotype.parse(summary["genotype"])
        lines += [report.to_text(genotype), f"{genotype}\n"]
    lines += [f"{name:<10} {text}" for name, text in _facts(summary)]
    return "\n".join(
        [*lines, f"found in {counted(summary['seconds'], 'second', '.0f')}; everything is in {summary['run']}"]
    )


def _facts(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    from archgrad.tasks import MetricInfo

    last = summary["last_epoch"]
    facts = []
    metric = MetricInfo.of_record(last)
    mixture, one = (last.get(f"{kind}_{metric.name}") for kind in ("mixture", "discrete"))
    if mixture is not None and one is not None:
        told = (
            f"{metric.show(mixture)} with the mixture, {metric.show(one)} with this architecture and the same weights"
        )
        facts.append((metric.name, told))
    facts += [("size", f"{size} {where}") for where, size in summary["sizes"].items()]
    facts += [("budget", text) for text in summary["budgets"]]
    return [*facts, *(("next", step) for step in summary["next"])]


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
        published = replace(searched, **wanted), dict(searched.compared_images)
        sizes["at the size of published results"] = published
    outputs = result.stages.whole.outputs
    return {
        f"{what}, {_size_of(sized, images)}": str(sized.cost(result.genotype, num_classes=outputs, **images))
        for what, (sized, images) in sizes.items()
    }


def _budgets(result: SearchResult) -> list[str]:
    """Return the cost of the cell's network against each target that the search was given."""
    from archgrad.regularizers import CostPenalty
    from archgrad.spaces.cost_model import NetworkShape

    whole = result.stages.whole
    shape = NetworkShape(whole.outputs, whole.data.channels, whole.data.shape[1:])
    penalties = [part for part in whole.parts.method.regularizers if isinstance(part, CostPenalty)]
    return [part.compare(whole.space, result.genotype, shape) for part in penalties]


def _size_of(space: SearchSpace, images: Mapping[str, Any]) -> str:
    from archgrad.spaces.cost import sides

    depth = getattr(space, space.depth_knob)
    cells = {"cells_per_stage": "per stage", "cells": "in total"}.get(space.depth_knob, space.depth_knob)
    pixels = "{}×{} pixels".format(*sides(images["image_size"]))
    return f"{counted(space.channels, 'channel')} and {counted(depth, 'cell')} {cells}, {pixels}"


def _next(verdict: str, result: SearchResult, run: Path) -> list[str]:
    """Return the next commands to run, each with a comment."""
    from archgrad.tables import tables_for

    steps, config = [], result.stages.whole.config
    if verdict == "healthy":
        again = f"archgrad search --config {run / 'config.toml'} --seed {config.seed + 1}"
        steps.append(f"{again}   # trust a choice that another seed repeats")
    for table in () if result.undecided else tables_for(str(config.space)):
        if table.is_available():
            steps.append(f"archgrad query {run}   # its accuracy in the {table.title} table")
    if not result.undecided:
        steps.append(f"archgrad train {run}   # train its network, and test it")
    return [*steps, f"archgrad inspect {run}   # curves of the search"]
