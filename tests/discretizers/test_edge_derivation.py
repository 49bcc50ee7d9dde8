"""Derivation with edge weights: an edge is as strong as its best operation times its own weight (PC-DARTS)."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from varied_spaces import VARIED_SPACES

from archgrad.discretizers import Argmax, strongest_choices
from archgrad.spaces import SPACES, DecisionBlock, Row, SearchSpace
from archgrad.supernet import SupernetOptions

EDGES = SupernetOptions(edge_weights=True)
KEEPING = [name for name in VARIED_SPACES if SPACES.constructor(name)().blocks[0].keep is not None]


def probabilities_of(space: SearchSpace, seed: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        b.name: torch.randn(b.shape, generator=generator).masked_fill(~b.mask, -torch.inf).softmax(-1)
        for b in space.searched_blocks(EDGES)
    }


NODE = DecisionBlock(
    "normal", 1, tuple(Row(3, source, ("none", "skip", "conv")) for source in range(3)), 2, frozenset({"none"}), (3,)
)
OPERATIONS = torch.tensor([[0.1, 0.5, 0.4], [0.1, 0.2, 0.7], [0.1, 0.6, 0.3]])


@pytest.mark.parametrize(
    ("edges", "expected"),
    [
        (None, [(1, 2), (2, 1)]),
        ([1 / 3, 1 / 3, 1 / 3], [(1, 2), (2, 1)]),
        ([0.5, 0.2, 0.3], [(0, 1), (2, 1)]),  # 0.25, 0.14, 0.18: the strongest operation is on the edge that goes
        ([0.5, 0.4, 0.1], [(0, 1), (1, 2)]),  # 0.25, 0.28, 0.06
        ([1.0, 0.0, 0.0], [(0, 1), (1, 2)]),  # a tie of nothing goes to the first, with its own best operation
    ],
)
def test_the_product_decides(edges: list[float] | None, expected: list[tuple[int, int]]) -> None:
    assert strongest_choices(NODE, OPERATIONS, 2, edges) == expected


@pytest.mark.parametrize("name", KEEPING)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_multiplying_by_hand_gives_the_same(name: str, seed: int) -> None:
    space = SPACES.constructor(name)()
    probabilities = probabilities_of(space, seed)
    products = {}
    for block in space.blocks:
        table, used = probabilities[f"{block.name}.edges"], dict.fromkeys(block.targets, 0)
        products[block.name] = probabilities[block.name].clone()
        for index, row in enumerate(block.rows):
            products[block.name][index] *= table[list(used).index(row.target), used[row.target]]
            used[row.target] += 1
    derived = Argmax().select(space, probabilities)
    assert derived == Argmax().select(space, products)
    space.check(derived)
