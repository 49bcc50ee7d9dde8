from __future__ import annotations

import math
from itertools import combinations, product

import pytest
import torch
from tiny_space import Tiny

from archgrad.autodiff.tensors import Probabilities
from archgrad.discretizers import Argmax, most_probable
from archgrad.spaces import DARTS, SPACES, SearchSpace
from archgrad.supernet import SupernetOptions


def drawn(space: SearchSpace, seed: int, edges: bool = False) -> Probabilities:
    generator = torch.Generator().manual_seed(seed)
    blocks = space.searched_blocks(SupernetOptions(edge_weights=edges))
    logits = {one.name: torch.randn(one.shape, generator=generator, dtype=torch.float64) for one in blocks}
    return Probabilities({one.name: logits[one.name].masked_fill(~one.mask, -math.inf).softmax(-1) for one in blocks})


@pytest.mark.parametrize("name", ["nasbench201", "darts", "s3", "nasbench1shot1-1", "nasbench1shot1-3", "amended-a1"])
def test_the_first_is_the_argmax_and_the_others_follow_in_order(name: str) -> None:
    space = SPACES.create(name)
    for seed in range(10):
        probabilities = drawn(space, seed, edges=seed % 2 == 1)
        found = most_probable(space, probabilities, 30)
        assert found[0].genotype == Argmax().select(space, probabilities)
        assert len({one.genotype for one in found}) == 30
        assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
        for one in found:
            space.check(one.genotype)


def test_all_architectures_of_a_space_come_in_the_order_of_their_probabilities() -> None:
    space, probabilities = Tiny(), drawn(Tiny(), 0)
    rows = probabilities["cell"].tolist()
    scores = sorted(
        (math.prod(map(lambda row, choice: row[choice], rows, one)) for one in product(range(3), repeat=3)),
        reverse=True,
    )
    found = most_probable(space, probabilities, 100)
    assert [one.score for one in found] == pytest.approx(scores)
    assert sum(one.score for one in found) == pytest.approx(1.0)


def test_every_set_of_edges_competes() -> None:
    """With one operation on each edge, the edge weights decide: 1 · 3 · 6 · 10 sets of edges in each cell."""
    space = DARTS()
    space = space.restricted({block.name: [["sep_conv_3x3"]] * len(block.rows) for block in space.blocks})
    probabilities = drawn(space, 3, edges=True)
    cells = []
    for block in space.blocks:
        weights = probabilities[block.edges.name].tolist()
        nodes = [[math.prod(kept) for kept in combinations(row[: node + 2], 2)] for node, row in enumerate(weights)]
        cells.append([math.prod(one) for one in product(*nodes)])
    scores = sorted((one * other for one in cells[0] for other in cells[1]), reverse=True)
    assert [one.score for one in most_probable(space, probabilities, 500)] == pytest.approx(scores[:500])


def test_choices_without_any_probability_come_last_and_in_the_order_of_argmax() -> None:
    space = DARTS()
    probabilities = drawn(space, 0)
    for block in space.blocks:
        probabilities[block.name][:, 1:] = 0.0  # all is on `none`, which no genotype has
        probabilities[block.name][4, 3] = 0.5
    assert most_probable(space, probabilities, 1)[0].genotype == Argmax().select(space, probabilities)
