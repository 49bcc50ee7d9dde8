"""Amounts with units."""

from __future__ import annotations

import pytest

from archgrad.errors import UserError
from archgrad.system.amounts import read_amount, read_seconds


def test_amounts_have_units() -> None:
    assert [read_amount("--n", text) for text in ("1", "2k", "1.5M", " 3 G ")] == [1, 2000, 1_500_000, 3 * 10**9]
    for wrong in ("", "0", "-1", "1T", "5ms", "nan", "1e9", "9" * 40):
        with pytest.raises(UserError, match=r"--n is .*; write a positive number with k, M or G"):
            read_amount("--n", wrong)


def test_times_have_units() -> None:
    assert [read_seconds("--n", text) for text in ("1", "2s", "1.5ms", " 3 us ")] == [1, 2, 1.5e-3, 3e-6]
    for wrong in ("", "0ms", "-1", "5M", "nan", "9" * 40):
        with pytest.raises(UserError, match=r"--n is .*; write a positive time in s, ms or us"):
            read_seconds("--n", wrong)
