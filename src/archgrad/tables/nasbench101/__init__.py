"""NAS-Bench-101: the training results of 423,624 cells, converted from the benchmark's own file."""

from archgrad.tables.nasbench101.conversion import write_runs
from archgrad.tables.nasbench101.lookup import CellOracle, NASBench101Table
from archgrad.tables.nasbench101.rows import read_rows
from archgrad.tables.nasbench101.table import (
    PUBLISHED_OPTIMA,
    CellRecord,
    CellTable,
    Optimum,
    find_cells,
    open_cells,
    spaces_containing,
)
from archgrad.tables.nasbench101.tfrecord import read_records

__all__ = [
    "PUBLISHED_OPTIMA",
    "CellOracle",
    "CellRecord",
    "CellTable",
    "NASBench101Table",
    "Optimum",
    "find_cells",
    "open_cells",
    "read_records",
    "read_rows",
    "spaces_containing",
    "write_runs",
]
