from __future__ import annotations

import torch

from archgrad.discretizers import Argmax, Threshold
from archgrad.spaces import DARTS, NASBench201

ROWS = torch.tensor(
    [
        [0.1, 0.9, 0.2, 0.95, 0.1],
        [0.1, 0.84, 0.2, 0.3, 0.1],
        [0.1, 0.85, 0.2, 0.3, 0.1],
        [0.9, 0.1, 0.1, 0.1, 0.1],
        [0.5, 0.5, 0.5, 0.5, 0.5],
        [0.0, 0.0, 0.0, 0.0, 1.0],
    ]
)


def test_what_is_below_the_threshold_is_left_out_where_a_cell_may_lack_it() -> None:
    found = Threshold().select(NASBench201(), {"cell": ROWS})
    assert str(found) == "|nor_conv_3x3~0|+|none~0|skip_connect~1|+|none~0|none~1|avg_pool_3x3~2|"
    assert Threshold(0.4).select(NASBench201(exclude=("none",)), {"cell": ROWS[:, 1:]}).count("none") == 0


def test_where_each_node_needs_its_inputs_the_strongest_stay() -> None:
    space = DARTS()
    weak = {
        block.name: 0.5 * torch.rand(block.shape, generator=torch.Generator().manual_seed(1)) for block in space.blocks
    }
    assert Threshold().select(space, weak) == Argmax().select(space, weak)
