"""Several processes find what one process with the joint batch finds."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from searches import CASES, found


@pytest.mark.parametrize("name", CASES)
def test_a_joint_search_is_that_of_one_process(ranks: list[dict[str, Any]], name: str) -> None:
    alone, first = found(name), ranks[0][name]
    for kind in ("weights", "alpha"):
        for block, value in alone[kind].items():
            error = (first[kind][block] - value).norm() / value.norm()
            assert value.norm() > 0
            assert error < 1e-6, (kind, block)
    assert first["record"]["genotype"] == alone["record"]["genotype"]
    for key, value in alone["record"].items():
        assert first["record"][key] == (pytest.approx(value, rel=1e-6) if isinstance(value, float) else value)


@pytest.mark.parametrize("name", CASES)
def test_all_processes_find_the_same_bits(ranks: list[dict[str, Any]], name: str) -> None:
    for other in ranks[1:]:
        assert other[name]["record"] == ranks[0][name]["record"]
        for kind in ("weights", "alpha"):
            assert all(torch.equal(other[name][kind][block], value) for block, value in ranks[0][name][kind].items())
