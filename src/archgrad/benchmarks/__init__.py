"""Tables of architectures that others have trained, to judge a search without training what it found."""

from __future__ import annotations

from archgrad.benchmarks.nasbench201 import Accuracies, AccuracyTable, find_table, open_table
from archgrad.benchmarks.oracle import oracle

__all__ = ["Accuracies", "AccuracyTable", "find_table", "open_table", "oracle"]
