"""NAS-Bench-101: the training results of 423,624 cells, from the benchmark's own file."""

from archgrad.tables.nasbench101.index import DamagedIndex, Index, open_index
from archgrad.tables.nasbench101.index_builder import build_index
from archgrad.tables.nasbench101.index_cache import cached_index
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
    "DamagedIndex",
    "Index",
    "NASBench101Table",
    "Optimum",
    "build_index",
    "cached_index",
    "find_cells",
    "open_cells",
    "open_index",
    "read_records",
    "read_rows",
    "spaces_containing",
]
