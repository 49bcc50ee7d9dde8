"""Accuracy tables: they evaluate the result of a search without training it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from archgrad.errors import UserError
from archgrad.parts.fields import checked
from archgrad.spaces import SearchSpace
from archgrad.spaces.latency_table import LatencyTable, find_latencies, open_latencies
from archgrad.tables.base import Answer, Cell, CellLookup, Oracle, Table, oracle_measure
from archgrad.tables.nasbench101.lookup import NASBench101Table
from archgrad.tables.nasbench101.parquet_file import convert_table
from archgrad.tables.nasbench101.table import CellRecord, CellTable, find_cells, open_cells
from archgrad.tables.nasbench201.latency import look_up_latency
from archgrad.tables.nasbench201.lookup import NASBench201Table
from archgrad.tables.nasbench201.short_trainings import ShortTrainings, open_short_trainings
from archgrad.tables.nasbench201.table import AccuracyTable, find_table, open_table
from archgrad.tables.nasbench_macro import MacroTable, NASBenchMacroTable, find_macro_table

__all__ = [
    "TABLES",
    "AccuracyTable",
    "Answer",
    "CellLookup",
    "CellRecord",
    "CellTable",
    "LatencyTable",
    "MacroTable",
    "Oracle",
    "ShortTrainings",
    "Table",
    "convert_table",
    "datasets",
    "find_best",
    "find_cells",
    "find_latencies",
    "find_macro_table",
    "find_table",
    "look_up",
    "look_up_latency",
    "open_cells",
    "open_latencies",
    "open_short_trainings",
    "open_table",
    "oracle_measure",
    "oracles_for",
    "tables_for",
]

TABLES: dict[str, Table] = {
    "nasbench201": NASBench201Table(),
    "nasbench101": NASBench101Table(),
    "nasbench-macro": NASBenchMacroTable(),
}
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


def oracles_for(space: SearchSpace, datasets: Sequence[str]) -> tuple[list[CellLookup], str]:
    """Return the callbacks that look up a search's cells on these data sets, and a text that names their tables."""
    found = [table.oracle(space, datasets) for table in tables_for(space.name)]
    known = [one for one in found if one is not None]
    return [callback for one in known for callback in one.callbacks], "\n".join(one.source for one in known)


@checked
def look_up(architecture: Cell, path: Path | None = None) -> Answer:
    """Look a cell up in the table of its benchmark, by default the one on this machine."""
    own = next((table for table in TABLES.values() if table.has_form_of(architecture)), None)
    if own is None:
        titles = " or ".join(table.title for table in TABLES.values())
        raise UserError(
            f"no table has the accuracy of the genotype {str(architecture)[:100]}; give a cell of {titles}."
        )
    other = None if path is None else _table_by_name(path)
    if other is not None and other is not own:
        raise UserError(
            f"the name of {path} says that it is a table of {other.title}, but the cell is from {own.title}; give a "
            f"{own.suffixes[0]} file of {own.title}."
        )
    return own.look_up(architecture, path)


@checked
def find_best(path: Path) -> Answer:
    """Look up the best cell of a table."""
    table = _table_by_name(path)
    if table is None:
        known = ", ".join(f"{' or '.join(table.suffixes)} for {table.title}" for table in TABLES.values())
        raise UserError(
            f"the name of {path} does not tell which benchmark its table is from; it must end in {known}. "
            f"A .tfrecord file becomes a table with: archgrad convert PATH"
        )
    return table.best(path)


def _table_by_name(path: Path) -> Table | None:
    return next((table for table in TABLES.values() if path.suffix.lower() in table.suffixes), None)
