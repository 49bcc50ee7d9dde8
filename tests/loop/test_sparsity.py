"""Exponentiated gradient decides sooner than Adam on logits does (GAEA, Fig. 1)."""

from __future__ import annotations

import math

import pytest

import archgrad as ag

DATA = ag.data.digits(limit=240)


def entropies(method: ag.Method, seed: int) -> list[float]:
    space = ag.spaces.NASBench201(channels=4, cells_per_stage=1)
    result = ag.search(space, method, DATA, epochs=3, batch_size=20, seed=seed, alpha_budget="off")
    return [record["entropy"] for record in result.history]


@pytest.mark.parametrize("seed", range(2))
def test_entropy_falls_faster_on_the_simplex(seed: int) -> None:
    geometric, plain = entropies(ag.recipes.gaea(level="bilevel"), seed), entropies(ag.recipes.darts(), seed)
    assert all(one < other for one, other in zip(geometric, plain, strict=True))
    lost, others = math.log(5) - geometric[-1], math.log(5) - plain[-1]
    assert lost > 10 * others > 0
