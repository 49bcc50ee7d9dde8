"""Tables of architectures that others have trained, to judge a search without training what it found."""

from __future__ import annotations

from archgrad.benchmarks.nasbench101 import CellRecord, CellTable, find_cells, open_cells
from archgrad.benchmarks.nasbench201 import DATASETS, Accuracies, AccuracyTable, find_table, open_table
from archgrad.benchmarks.oracle import CellOracle, Oracle, oracle_measure

__all__ = [
    "DATASETS",
    "Accuracies",
    "AccuracyTable",
    "CellOracle",
    "CellRecord",
    "CellTable",
    "Oracle",
    "find_cells",
    "find_table",
    "open_cells",
    "open_table",
    "oracle_measure",
]
