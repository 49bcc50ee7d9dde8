"""A table of NAS-Bench-201 whose values are known: the more convolutions, the better."""

from __future__ import annotations

from functools import cache

import pytest

from archgrad.spaces.nasbench201_cells import CELLS, OPERATIONS
from archgrad.tables import AccuracyTable, ShortTrainings

__all__ = ["install"]


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put it in the place of the tables on this machine."""
    tested = AccuracyTable((_values(),) * 3, "known accuracy", "a test", "test_200ep")
    short = ShortTrainings("cifar10", _values(), "a test")
    monkeypatch.setattr("archgrad.blackbox.base.open_short_trainings", lambda dataset: short)
    monkeypatch.setattr("archgrad.tables.nasbench201.lookup.find_table", lambda: tested)


@cache
def _values() -> tuple[float, ...]:
    """Return 10 for each 3×3 convolution and 1 for each skip connection, by code."""
    worth = {"nor_conv_3x3": 10.0, "skip_connect": 1.0}
    by_digit = [worth.get(operation, 0.0) for operation in OPERATIONS]
    return tuple(sum(by_digit[code // 5**place % 5] for place in range(6)) for code in range(CELLS))
