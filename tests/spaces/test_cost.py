from __future__ import annotations

import pytest
import torch
from torch import nn

from archgrad.spaces import DARTS, Cost, Genotype, NASBench201, cost

CELL = "|nor_conv_3x3~0|+|nor_conv_3x3~0|nor_conv_3x3~1|+|skip_connect~0|nor_conv_3x3~1|nor_conv_3x3~2|"
DARTS_V2 = (
    "Genotype(normal=[('sep_conv_3x3', 0), ('sep_conv_3x3', 1), ('sep_conv_3x3', 0), ('sep_conv_3x3', 1), "
    "('sep_conv_3x3', 1), ('skip_connect', 0), ('skip_connect', 0), ('dil_conv_3x3', 2)], "
    "normal_concat=[2, 3, 4, 5], reduce=[('max_pool_3x3', 0), ('max_pool_3x3', 1), ('skip_connect', 2), "
    "('max_pool_3x3', 1), ('max_pool_3x3', 0), ('skip_connect', 2), ('skip_connect', 2), ('max_pool_3x3', 1)], "
    "reduce_concat=[2, 3, 4, 5])"
)


def test_a_cell_of_nasbench201_costs_what_the_benchmark_says() -> None:
    measured = cost(NASBench201().network(Genotype.parse(CELL)))
    assert round(measured.parameters / 1e6, 3) == 1.289
    assert round(measured.multiply_adds / 1e6, 2) == 184.73
    assert str(measured) == "1.289 M parameters, 184.73 M multiply-adds"


def test_the_cell_published_with_darts_costs_what_the_paper_says() -> None:
    with torch.device("meta"):  # only counted, never run
        network = DARTS(channels=36, cells=20).network(Genotype.parse(DARTS_V2))
    assert sum(parameter.numel() for parameter in network.parameters()) == 3_349_342


@pytest.mark.parametrize("training", [True, False])
def test_measuring_leaves_the_network_as_it_was(training: bool) -> None:
    torch.manual_seed(0)
    network = NASBench201(channels=2, cells_per_stage=1).network(Genotype.parse(CELL)).train(training)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    cost(network, image_size=8)
    assert network.training is training
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    assert all(parameter.grad is None for parameter in network.parameters())


def test_mode_is_restored_when_measuring_fails() -> None:
    network = NASBench201(channels=2, cells_per_stage=1).network(Genotype.parse(CELL))
    with pytest.raises(RuntimeError, match="expected input"):
        cost(network, input_channels=1, image_size=8)
    assert network.training


def test_frozen_parameters_do_not_count_and_types_do_not_matter() -> None:
    network = nn.Sequential(nn.Conv2d(2, 3, 1, bias=False), nn.Conv2d(3, 1, 1, bias=False)).double()
    network[0].requires_grad_(False)
    assert cost(network, input_channels=2, image_size=4) == Cost(3, 16 * (6 + 3))


def test_a_space_measures_at_its_own_sizes_and_those_of_the_data() -> None:
    small, shape = NASBench201(channels=4, cells_per_stage=1), {"input_channels": 1, "image_size": 8}
    genotype = Genotype.parse(CELL)
    found = small.cost(genotype, num_classes=3, **shape)
    assert found == cost(small.network(genotype, num_classes=3, input_channels=1), **shape)
    assert NASBench201().cost(genotype).multiply_adds > 100 * found.multiply_adds


def test_images_need_not_be_square() -> None:
    network = nn.Conv2d(1, 2, 1, bias=False)
    assert cost(network, 1, (4, 6)).multiply_adds == 2 * 24
