"""How many losses an estimate evaluates, as docs/hypergradients.md says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from seeded import randn

from archgrad.bilevel.problem import BilevelProblem
from archgrad.hypergradients import (
    SOBA,
    T1T2,
    Amended,
    ConjugateGradient,
    FirstOrder,
    Hypergradient,
    Neumann,
    Nystrom,
    TruncatedReverse,
    Unrolled,
    evaluate_at,
)

PASSES: dict[Hypergradient, list[int]] = {
    FirstOrder(): [1, 1, 1],
    Unrolled(lr=0.1): [3, 3, 3],
    T1T2(): [3, 3, 3],
    Neumann(2, 0.1): [5, 5, 5],
    ConjugateGradient(2): [5, 5, 5],
    ConjugateGradient(2, warm_start=True): [5, 6, 6],
    Nystrom(4, every=2): [7, 3, 7],
    SOBA(0.1): [1, 3, 3],
    Amended(): [4, 4, 4],
    TruncatedReverse(4, 2, lr=0.1): [7, 7, 7],
}
"""Of the first three estimates, by one-sided differences."""


@pytest.mark.parametrize("member", PASSES, ids=lambda member: type(member).__name__)
def test_an_estimate_takes_as_many_passes_as_the_page_says(member: Any) -> None:
    counted = 0

    def loss(w: Any, a: Any, batch: Any) -> Any:
        nonlocal counted
        counted += 1
        return (w["w"] - a["a"]).square().sum() + (w["w"] ** 4).sum()

    point = BilevelProblem(loss, loss), {"w": randn(9, seed=0)}, {"a": randn(9, seed=1)}
    cheap = member if isinstance(member, FirstOrder) else replace(member, products="forward")
    state, found = cheap.init(*point[1:]), []
    with evaluate_at(*point, None, None) as at:
        for _ in range(3):
            counted = 0
            _, state = cheap.estimate(at, state)
            found.append(counted)
    assert found == PASSES[member]
