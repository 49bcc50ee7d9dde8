"""NAS-Bench-201: the accuracies of all 15,625 cells on three data sets."""

from archgrad.tables.nasbench201.lookup import AccuracyOracle, NASBench201Table
from archgrad.tables.nasbench201.official_folder import write_cells
from archgrad.tables.nasbench201.short_trainings import ShortTrainings, open_short_trainings
from archgrad.tables.nasbench201.table import DATASETS, Accuracies, AccuracyTable, find_table, open_table

__all__ = [
    "DATASETS",
    "Accuracies",
    "AccuracyOracle",
    "AccuracyTable",
    "NASBench201Table",
    "ShortTrainings",
    "find_table",
    "open_short_trainings",
    "open_table",
    "write_cells",
]
