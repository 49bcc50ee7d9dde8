"""NAS-Bench-101: what training found for 423,624 cells, read from the benchmark's own file."""

from archgrad.benchmarks.nasbench101.build import Progress, build_index
from archgrad.benchmarks.nasbench101.cache import cached_index
from archgrad.benchmarks.nasbench101.index import Index, open_index
from archgrad.benchmarks.nasbench101.rows import read_rows
from archgrad.benchmarks.nasbench101.schema import DamagedIndex
from archgrad.benchmarks.nasbench101.table import (
    PUBLISHED_OPTIMA,
    CellRecord,
    CellTable,
    Optimum,
    find_cells,
    open_cells,
    spaces_with,
)
from archgrad.benchmarks.nasbench101.tfrecord import read_records

__all__ = [
    "PUBLISHED_OPTIMA",
    "CellRecord",
    "CellTable",
    "DamagedIndex",
    "Index",
    "Optimum",
    "Progress",
    "build_index",
    "cached_index",
    "find_cells",
    "open_cells",
    "open_index",
    "read_records",
    "read_rows",
    "spaces_with",
]
