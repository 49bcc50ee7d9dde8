"""Derivation with edge weights: an edge is as strong as its best operation times its own weight (PC-DARTS)."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from archgrad.discretizers import Argmax, strongest_choices
from archgrad.spaces import DARTS, SPACES, DecisionBlock, NASBench201, Row, SearchSpace
from archgrad.supernet import SupernetOptions

EDGES = SupernetOptions(edge_weights=True)
KEEPING = [name for name in SPACES if SPACES.constructor(name)().blocks[0].keep is not None]


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


def test_edge_weights_change_what_is_derived() -> None:
    """Node 4 of a normal cell: its strongest operations come from 0 and 1, its heaviest edges from 2 and 3."""
    space = DARTS()
    probabilities = {b.name: b.mask / b.mask.sum(-1, keepdim=True) for b in space.searched_blocks(EDGES)}
    operations, edges = probabilities["normal"].clone(), probabilities["normal.edges"].clone()
    operations[5:9] = 0.1
    operations[[5, 6], 4], operations[[7, 8], 6] = 0.3, 0.2
    edges[2] = torch.tensor([0.15, 0.15, 0.35, 0.35, 0.0])
    derived = Argmax().select(space, probabilities | {"normal": operations, "normal.edges": edges})
    assert [str(decision) for decision in derived["normal"].inputs_of(4)] == ["dil_conv_3x3@4<-2", "dil_conv_3x3@4<-3"]
    unweighed = Argmax().select(space, {"normal": operations, "reduce": probabilities["reduce"]})
    assert [str(decision) for decision in unweighed["normal"].inputs_of(4)] == [
        "sep_conv_3x3@4<-0",
        "sep_conv_3x3@4<-1",
    ]


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


@pytest.mark.parametrize("name", [name for name in SPACES if name not in KEEPING])
def test_spaces_that_keep_all_edges_are_unaffected(name: str) -> None:
    space = SPACES.constructor(name)()
    for seed in range(3):
        probabilities = probabilities_of(space, seed)
        gone = {b.name: torch.zeros(b.shape) for b in space.searched_blocks(EDGES)[len(space.blocks) :]}
        plain = Argmax().select(space, {b.name: probabilities[b.name] for b in space.blocks})
        assert Argmax().select(space, probabilities) == Argmax().select(space, probabilities | gone) == plain


def test_a_decided_search_with_edge_weights_gives_what_it_decided() -> None:
    for space in (DARTS(), NASBench201()):
        wanted = Argmax().select(space, probabilities_of(space, 3))
        decided = {key: value[0] for key, value in space.one_hot(wanted, EDGES).items()}
        assert Argmax().select(space, decided) == wanted
