"""NAS-Bench-101: the training results of 423,624 cells, converted from the benchmark's own file."""

from archgrad.tables.nasbench101.lookup import CellOracle, NASBench101Table
from archgrad.tables.nasbench101.parquet_file import write_runs
from archgrad.tables.nasbench101.table import (
    PUBLISHED_OPTIMA,
    CellRecord,
    CellTable,
    Optimum,
    find_cells,
    open_cells,
    spaces_containing,
)

__all__ = [
    "PUBLISHED_OPTIMA",
    "CellOracle",
    "CellRecord",
    "CellTable",
    "NASBench101Table",
    "Optimum",
    "find_cells",
    "open_cells",
    "spaces_containing",
    "write_runs",
]
