"""NAS-Bench-201: the accuracies of all 15,625 cells on three data sets."""

from archgrad.tables.nasbench201.lookup import NASBench201Table, accuracy_oracle
from archgrad.tables.nasbench201.table import DATASETS, Accuracies, AccuracyTable, find_table, open_table

__all__ = [
    "DATASETS",
    "Accuracies",
    "AccuracyTable",
    "NASBench201Table",
    "accuracy_oracle",
    "find_table",
    "open_table",
]
