"""The spaces of Amended-DARTS as they are published."""

from __future__ import annotations

import math

import pytest
from small_spaces import random_genotype

from archgrad.spaces import SPACES, AmendedA1, AmendedA2, SearchSpace

EDGES = ["2<-0", "2<-1", "3<-0", "3<-2", "4<-0", "4<-3", "5<-0", "5<-4"]
WITHOUT_NONE = ("max_pool_3x3", "avg_pool_3x3", "skip_connect", "sep_conv_3x3", "sep_conv_5x5")
WITHOUT_NONE += ("dil_conv_3x3", "dil_conv_5x5")


def architectures(space: SearchSpace) -> int:
    """Count: every row of every block chooses once."""
    return math.prod(len(row.choices) for block in space.blocks for row in block.rows)


@pytest.mark.parametrize("which", ["a1", "a2"])
def test_eight_fixed_edges_survive(which: str) -> None:
    space = SPACES.constructor(f"amended-{which}")()
    assert (space.name, space.channels) == (f"amended-{which}", 36)
    assert space == {"a1": AmendedA1, "a2": AmendedA2}[which]()
    for block in space.blocks:
        assert [row.name for row in block.rows] == EDGES
        assert (block.keep, block.targets, block.concat) == (None, (2, 3, 4, 5), (2, 3, 4, 5))
    genotype = random_genotype(space)
    assert all(
        [(row.target, row.source) for row in block.rows] == [(d.target, d.source) for d in genotype[block.name]]
        for block in space.blocks
    )


def test_a1_as_published() -> None:
    space = AmendedA1()
    assert [(block.name, block.cells) for block in space.blocks] == [("normal", 6), ("reduce", 2)]
    assert {row.choices for block in space.blocks for row in block.rows} == {WITHOUT_NONE}
    assert architectures(space) == 7**16
    assert f"{architectures(space):.1e}" == "3.3e+13"


def test_a2_as_published() -> None:
    space = AmendedA2()
    assert (space.cells, space.reductions) == (20, (6, 13))
    assert [(block.name, block.cells) for block in space.blocks] == [(f"cell_{layer:02}", 1) for layer in range(20)]
    assert {row.choices for block in space.blocks for row in block.rows} == {("skip_connect", "sep_conv_3x3")}
    assert architectures(space) == 2**160
    assert f"{architectures(space):.1e}" == "1.5e+48"
