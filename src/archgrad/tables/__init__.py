"""Accuracy tables: they evaluate the result of a search without training it."""

from __future__ import annotations

from collections.abc import Sequence

from archgrad.callbacks import Callback
from archgrad.parts.fields import checked
from archgrad.spaces import SearchSpace
from archgrad.tables.base import Answer, CellLookup, Oracle, Table, oracle_measure
from archgrad.tables.conversion import convert_table
from archgrad.tables.nasbench101 import CellOracle, CellRecord, CellTable, NASBench101Table, find_cells, open_cells
from archgrad.tables.nasbench201 import (
    Accuracies,
    AccuracyOracle,
    AccuracyTable,
    NASBench201Table,
    ShortTrainings,
    find_table,
    open_short_trainings,
    open_table,
)

__all__ = [
    "TABLES",
    "Accuracies",
    "AccuracyOracle",
    "AccuracyTable",
    "Answer",
    "CellLookup",
    "CellOracle",
    "CellRecord",
    "CellTable",
    "Oracle",
    "ShortTrainings",
    "Table",
    "convert_table",
    "datasets",
    "find_cells",
    "find_table",
    "open_cells",
    "open_short_trainings",
    "open_table",
    "oracle_measure",
    "oracles_for",
    "tables_for",
]

TABLES: dict[str, Table] = {"nasbench201": NASBench201Table(), "nasbench101": NASBench101Table()}
"""All tables, for searches and ``archgrad query``."""


@checked
def tables_for(space: str) -> list[Table]:
    """Return the tables that answer for a space.

    >>> [table.title for table in tables_for("nasbench1shot1-2")]
    ['NAS-Bench-101']
    """
    return [table for table in TABLES.values() if space in table.spaces]


def datasets() -> tuple[str, ...]:
    """Return the data sets that any table has accuracies on."""
    return tuple(dict.fromkeys(dataset for table in TABLES.values() for dataset in table.datasets))


def oracles_for(space: SearchSpace, datasets: Sequence[str]) -> tuple[list[Callback], str]:
    """Return the callbacks that look up a search's cells on these data sets, and a text that names their tables."""
    found = [table.oracle(space, datasets) for table in tables_for(space.name)]
    known = [one for one in found if one is not None]
    return [callback for one in known for callback in one.callbacks], "\n".join(one.source for one in known)
