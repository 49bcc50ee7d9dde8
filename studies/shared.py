"""What the scripts of this folder share: the stored runs, and how a table shows their means."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from archgrad import tables
from archgrad.config.toml import read_toml
from archgrad.spaces import NASBench201
from archgrad.studies.statistics import summarize

__all__ = ["CIFAR10", "CIFAR100", "FEWEST", "HERE", "Runs", "read_runs", "row_of", "signed", "spread", "worse_share"]

HERE = Path(__file__).parent
CIFAR10, CIFAR100 = "oracle_cifar10_test_200ep", "oracle_cifar100_test_200ep"
FEWEST = 5
"""Fewer seeds have no interval here: theirs would be wider than all accuracies."""
Runs = dict[int, list[dict[str, Any]]]
"""The records of each seed."""


def read_runs(study: str) -> dict[str, Runs]:
    """Return the records of all stored runs by variant and seed, the variants in the order of the study."""
    order = list(read_toml(HERE / f"{study}.toml")["variant"])
    found: dict[str, Runs] = {}
    for path in sorted((HERE / "results" / study).glob("*/*/metrics.jsonl")):
        variant, _, seed = path.parent.name.rpartition("-seed")
        lines = path.read_text(encoding="utf-8").splitlines()
        found.setdefault(variant, {})[int(seed)] = [json.loads(line) for line in lines]
    return {variant: found[variant] for variant in order if variant in found}


def row_of(cells: Sequence[str]) -> str:
    """Return a row of a table."""
    return f"| {' | '.join(cells)} |"


def spread(values: Sequence[float], form: str = ".2f") -> str:
    """Return the mean, and its 95 % interval where there are enough runs."""
    summary = summarize(values)
    ends = None if len(values) < FEWEST else summary.interval
    return f"{summary.mean:{form}}" + ("" if ends is None else f" ({ends[0]:{form}} to {ends[1]:{form}})")


def signed(values: Sequence[float]) -> str:
    """Return the mean of differences with its sign, and its 95 % interval where there are enough."""
    return spread(values, "+.2f")


def worse_share() -> Callable[[float], float]:
    """Return the function from an accuracy on CIFAR-10 to the share, in per cent, of cells that are worse."""
    space = NASBench201(exclude=("none",))
    every = tables.tables_for(space.name)[0].values(space, CIFAR10)
    if not every:
        raise SystemExit("the NAS-Bench-201 table is not there; let ARCHGRAD_DATA name the folder that holds it.")
    return lambda accuracy: 100 * sum(one < accuracy for one in every) / len(every)
