"""The parts of a network's cost, the widest network within a limit, and the time that one takes."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch
from torch import nn

from archgrad.errors import UserError
from archgrad.spaces import DARTS, Genotype, NASBench201, known_cells
from archgrad.spaces.cost_table import cost_table, training_memory
from archgrad.spaces.fit_width import fit_width
from archgrad.spaces.latency import measure_latency

CELL = Genotype.parse("|nor_conv_3x3~0|+|nor_conv_3x3~0|nor_conv_3x3~1|+|skip_connect~0|nor_conv_3x3~1|nor_conv_3x3~2|")
DARTS_V2 = known_cells()["darts-v2"].genotype


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_the_parts_add_up(device: str) -> None:
    space = DARTS(channels=4, cells=3)
    with torch.device(device):
        network = space.network(DARTS_V2)
    table = cost_table(network, image_size=16)
    assert table.total == space.cost(DARTS_V2, image_size=16)
    for rows in (table.cells, table.operations):
        assert sum(row.parameters for row in rows) == table.total.parameters
        assert sum(row.multiply_adds for row in rows) == table.total.multiply_adds
    assert [row.name for row in table.cells] == ["stem", "cells.0", "cells.1", "cells.2", "classifier"]
    counts = {row.name: row.count for row in table.operations}
    assert counts == {"sep_conv_3x3": 5, "dil_conv_3x3": 1, "skip_connect": 8, "max_pool_3x3": 10, "all else": 1}


def test_an_operation_costs_what_its_convolutions_do() -> None:
    network = NASBench201(channels=4, cells_per_stage=1).network(CELL)
    (row,) = [row for row in cost_table(network, image_size=8).operations if row.name == "nor_conv_3x3"]
    assert row.multiply_adds == 5 * sum(9 * width**2 * side**2 for width, side in ((4, 8), (8, 4), (16, 2)))
    assert row.parameters == 5 * sum(9 * width**2 + 2 * width for width in (4, 8, 16))


def test_training_memory_is_what_the_backward_pass_keeps() -> None:
    """A convolution keeps its input and a ReLU its output: 4 bytes for each of their numbers."""
    network = nn.Sequential(nn.Conv2d(3, 5, 1, bias=False), nn.ReLU(), nn.Conv2d(5, 2, 1, bias=False))
    before = deepcopy(network.state_dict())
    assert training_memory(network, image_size=8) == 4 * 64 * (3 + 5)
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())


@pytest.mark.parametrize("limit", [100_000, 1_000_000, 3_333_333])
@pytest.mark.parametrize("start", [1, 16, 100])
def test_the_widest_network_within_a_limit(limit: int, start: int) -> None:
    space = NASBench201(channels=start, cells_per_stage=1)
    found = fit_width(space, CELL, limit, image_size=8)
    wider = NASBench201(channels=found.channels + 1, cells_per_stage=1)
    assert found.cost(CELL, image_size=8).multiply_adds <= limit < wider.cost(CELL, image_size=8).multiply_adds


def test_a_limit_that_no_width_meets_is_explained() -> None:
    with pytest.raises(UserError, match=r"no width meets the limit of 10 multiply-adds: one channel takes [\d,]+;"):
        fit_width(NASBench201(cells_per_stage=1), CELL, 10)


def test_latency_leaves_the_network_as_it_was() -> None:
    network = NASBench201(channels=2, cells_per_stage=1).network(CELL)
    before = deepcopy(network.state_dict())
    assert measure_latency(network, image_size=8, batch_size=2) > 0
    assert network.training
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
