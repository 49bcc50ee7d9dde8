"""Several processes find what one process with the joint batch finds."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pytest
import torch
from searches import CASES, FURTHER, OF_THREE, TWO_EPOCHS, found


@pytest.mark.parametrize("ranks", [2], indirect=True)
@pytest.mark.parametrize("name", [*CASES, *FURTHER])
def test_a_joint_search_is_that_of_one_process(ranks: list[dict[str, Any]], name: str) -> None:
    check(ranks, name)


@pytest.mark.parametrize("ranks", [3], indirect=True)
@pytest.mark.parametrize("name", OF_THREE)
def test_a_search_of_three_is_that_of_one_process(ranks: list[dict[str, Any]], name: str) -> None:
    check(ranks, name)


@lru_cache(maxsize=len(CASES))
def alone(name: str) -> dict[str, Any]:
    return found(name)


def check(ranks: list[dict[str, Any]], name: str) -> None:
    """Compare the first process with a single one, and all processes with the first, to the bit."""
    single, first = alone(name), ranks[0][name]
    for kind in ("weights", "alpha"):
        for block, value in single[kind].items():
            assert value.norm() > 0
            assert (first[kind][block] - value).norm() < 1e-6 * value.norm(), (kind, block)
            assert all(torch.equal(other[name][kind][block], first[kind][block]) for other in ranks[1:])
    for key, value in single["record"].items():
        assert first["record"][key] == (pytest.approx(value, rel=1e-6) if isinstance(value, float) else value)
    assert all(other[name]["record"] == first["record"] for other in ranks[1:])
    assert [rank[name]["written"] for rank in ranks] == [1 + (name in TWO_EPOCHS)] + [0] * (len(ranks) - 1)
