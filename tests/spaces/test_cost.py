"""What a network takes: parameters, multiply-adds, memory and time, of the whole and of its parts."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from small_spaces import random_genotype
from torch import nn
from varied_spaces import small_space

from archgrad.spaces import DARTS, Cost, Genotype, NASBench201, cost, known_cells
from archgrad.spaces.cost import cost_table, measure_latency, training_memory

CELL = Genotype.parse("|nor_conv_3x3~0|+|nor_conv_3x3~0|nor_conv_3x3~1|+|skip_connect~0|nor_conv_3x3~1|nor_conv_3x3~2|")
DARTS_V2 = known_cells()["darts-v2"].genotype


def test_a_cell_of_nasbench201_costs_what_the_benchmark_says() -> None:
    measured = cost(NASBench201().network(CELL))
    assert round(measured.parameters / 1e6, 3) == 1.289
    assert round(measured.multiply_adds / 1e6, 2) == 184.73
    assert str(measured) == "1.289 M parameters, 184.73 M multiply-adds"


@pytest.mark.parametrize("measure", [cost, cost_table, training_memory, measure_latency])
@pytest.mark.parametrize("training", [True, False])
def test_measuring_leaves_the_network_as_it_was(training: bool, measure: Callable[..., object]) -> None:
    network = NASBench201(channels=2, cells_per_stage=1).network(CELL).train(training)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    measure(network, image_size=8)
    assert network.training is training
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    assert all(parameter.grad is None for parameter in network.parameters())


def test_mode_is_restored_when_measuring_fails() -> None:
    network = NASBench201(channels=2, cells_per_stage=1).network(CELL)
    with pytest.raises(RuntimeError, match="expected input"):
        cost(network, input_channels=1, image_size=8)
    assert network.training


def test_frozen_parameters_do_not_count_and_types_do_not_matter() -> None:
    network = nn.Sequential(nn.Conv2d(2, 3, 1, bias=False), nn.Conv2d(3, 1, 1, bias=False)).double()
    network[0].requires_grad_(False)
    assert cost(network, input_channels=2, image_size=4) == Cost(3, 16 * (6 + 3))


def test_a_space_measures_at_its_own_sizes_and_those_of_the_data() -> None:
    small, shape = NASBench201(channels=4, cells_per_stage=1), {"input_channels": 1, "image_size": 8}
    found = small.cost(CELL, num_classes=3, **shape)
    assert found == cost(small.network(CELL, num_classes=3, input_channels=1), **shape)
    assert NASBench201().cost(CELL).multiply_adds > 100 * found.multiply_adds


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
    assert training_memory(network, image_size=8) == 4 * 64 * (3 + 5)


@pytest.mark.parametrize("name", ["nasbench1shot1-1", "nasbench1shot1-3"])
def test_the_formula_of_cells_on_nodes_is_the_count_of_their_networks(name: str) -> None:
    space = small_space(name, channels=6)
    for seed in range(3):
        genotype = random_genotype(space, seed)
        assert space.cost(genotype, image_size=9) == cost(space.network(genotype), image_size=9)
