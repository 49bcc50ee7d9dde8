"""Tables of architectures that others have trained, to judge a search without training what it found."""

from __future__ import annotations

from archgrad.benchmarks.nasbench101 import CellRecord, CellTable, find_cells, open_cells
from archgrad.benchmarks.nasbench201 import DATASETS, Accuracies, AccuracyTable, find_table, open_table
from archgrad.benchmarks.oracle import cell_oracle, oracle, oracle_measure

__all__ = [
    "DATASETS",
    "Accuracies",
    "AccuracyTable",
    "CellRecord",
    "CellTable",
    "cell_oracle",
    "find_cells",
    "find_table",
    "open_cells",
    "open_table",
    "oracle",
    "oracle_measure",
]
