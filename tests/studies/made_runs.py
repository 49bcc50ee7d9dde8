"""Run directories of a study as they look after its end, without a search."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from archgrad.studies.folder import StudyFolder
from archgrad.studies.plan import Benchmark, StudyPlan, Variant

__all__ = ["CELL", "COLLAPSED", "make_run", "make_study"]

CELL = "|nor_conv_3x3~0|+|nor_conv_3x3~0|nor_conv_1x1~1|+|skip_connect~0|nor_conv_3x3~1|nor_conv_3x3~2|"
COLLAPSED = "|skip_connect~0|+|skip_connect~0|skip_connect~1|+|skip_connect~0|skip_connect~1|nor_conv_3x3~2|"


def make_run(home: Path, *records: Mapping[str, Any]) -> None:
    """Write a finished run; a record needs only what a test is about."""
    home.mkdir(parents=True)
    lines = [{"epoch": number, "genotype": CELL, "seconds": 30.0, **one} for number, one in enumerate(records, 1)]
    (home / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    (home / "summary.json").write_text("{}")


def make_study(
    path: Path,
    runs: Mapping[str, Mapping[str, Any]],
    *variants: Variant,
    seeds: int,
    data: tuple[str, ...] = ("cifar10",),
) -> StudyFolder:
    """Write a study; ``runs`` are final records by BENCHMARK/VARIANT-seedN, or sequences of records."""
    benchmarks = tuple(Benchmark(f"b-{one}", "nasbench201", one) for one in data)
    folder = StudyFolder(path)
    folder.write_plan(StudyPlan(variants, benchmarks, tuple(range(seeds)), {"epochs": 2, "channels": 4, "cells": 1}))
    for name, record in runs.items():
        make_run(path / name, *(record if isinstance(record, list) else [record]))
    return folder
