"""The largest of nearly equal choices."""

from __future__ import annotations

from itertools import product

import pytest
import torch

from archgrad.discretizers import Argmax, Largest
from archgrad.spaces import DARTS, NASBench201, SearchSpace

SPACE = NASBench201(channels=4, cells_per_stage=1, exclude=("none",))
OPERATIONS = SPACE.blocks[0].rows[0].choices


def test_only_the_most_expensive_of_the_near_choices_counts() -> None:
    weights = torch.tensor(
        [{"skip_connect": 0.5, "nor_conv_3x3": 0.19, "nor_conv_1x1": 0.2}.get(one, 0.11) for one in OPERATIONS]
    )
    probabilities = {"cell": weights.expand(6, -1).clone()}
    shares = {
        1.0: "skip_connect",
        0.41: "skip_connect",
        0.39: "nor_conv_1x1",
        0.37: "nor_conv_3x3",
        0.0: "nor_conv_3x3",
    }
    for share, choice in shares.items():
        assert {one.choice for one in Largest(share).select(SPACE, probabilities)["cell"]} == {choice}


@pytest.mark.parametrize("space", [SPACE, DARTS(channels=4, cells=3)], ids=["nasbench201", "darts"])
def test_a_share_of_one_is_argmax(space: SearchSpace) -> None:
    for seed in range(5):
        drawn = torch.Generator().manual_seed(seed)
        probabilities = {block.name: torch.rand(block.shape, generator=drawn).softmax(-1) for block in space.blocks}
        assert Largest(1.0).select(space, probabilities) == Argmax().select(space, probabilities)


def test_it_is_the_most_expensive_of_all_cells_of_near_choices() -> None:
    drawn = torch.Generator().manual_seed(3)
    probabilities = {"cell": torch.randn(6, 4, generator=drawn).softmax(-1)}
    near = [[c for c in range(4) if row[c] >= 0.4 * row.max()] for row in probabilities["cell"]]
    cells = [SPACE.genotype({"cell": list(enumerate(chosen))}) for chosen in product(*near)]
    assert len(cells) > 8
    found = Largest().select(SPACE, probabilities)
    assert found in cells
    assert SPACE.cost(found).multiply_adds == max(SPACE.cost(one).multiply_adds for one in cells)
