"""Plain networks: stems, auxiliary heads and drop-path."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from varied_spaces import VARIED_SPACES

from archgrad.discretizers import Argmax
from archgrad.spaces import DARTS, SPACES, SearchSpace, known_cells
from archgrad.spaces.skeleton import average_corners
from archgrad.supernet import set_drop_path

GENOTYPE = known_cells()["darts-v2"].genotype


def network_of(space: SearchSpace, **options: bool) -> nn.Module:
    torch.manual_seed(0)
    probabilities = {block.name: torch.rand(block.shape) * block.mask for block in space.blocks}
    return space.network(Argmax().select(space, probabilities), num_classes=5, **options)


@pytest.mark.parametrize("name", VARIED_SPACES)
def test_the_stem_for_imagenet_divides_the_resolution_by_eight(name: str) -> None:
    space = SPACES.create(name)
    small = {"channels": 4, space.depth_knob: 3 if space.depth_knob == "cells" else 1}
    sizes = []
    for stem in ("cifar", "imagenet"):
        sized = type(space)(**small, stem=stem, **({"number": space.number} if hasattr(space, "number") else {}))  # type: ignore[arg-type]
        network = network_of(sized)
        assert network(torch.zeros(2, 3, 64, 64)).shape == (2, 5)
        output = network.get_submodule("stem")(torch.zeros(1, 3, 64, 64))
        sizes.append([tuple(one.shape[2:]) for one in (output if isinstance(output, tuple) else (output,))][-1])
        mixture = {block.name: torch.rand(block.cells, *block.shape) for block in sized.blocks}
        assert sized.supernet(num_classes=5)(torch.rand(2, 3, 64, 64), mixture).shape == (2, 5)
    # that of mobile halves it; its first layer, and three others in both cases, halve it again
    assert sizes == [(64, 64), (32, 32) if name == "mobile" else (8, 8)]


def test_the_network_for_imagenet_reads_both_outputs_of_its_stem() -> None:
    network = DARTS(channels=8, cells=3, stem="imagenet").network(GENOTYPE)
    stem = network.get_submodule("stem")
    before, last = stem(torch.zeros(1, 3, 224, 224))
    assert before.shape == (1, 8, 56, 56)
    assert last.shape == (1, 8, 28, 28)
    assert stem.get_submodule("first.0").weight.shape == (4, 3, 3, 3)


def test_the_auxiliary_head_for_imagenet_pools_as_published() -> None:
    x = torch.rand(1, 2, 7, 7, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(average_corners(x, (5, 7)), F.avg_pool2d(x, 5, 2, count_include_pad=False))


def test_drop_path_keeps_the_expectation() -> None:
    """E[m] = 1 for every operation, so the mean over draws of a node with linear inputs is its value without drops."""
    network = DARTS(channels=2, cells=3).network(GENOTYPE).double()
    cell = next(module for module in network.modules() if type(module).__name__ == "FixedCell")
    inputs = [torch.rand(1, 2, 4, 4, dtype=torch.float64).expand(4000, -1, -1, -1) for _ in range(2)]
    for module in cell.modules():  # evaluation mode in the norms, training mode in the cell
        module.train(module is cell)
    with torch.no_grad():
        expected = cell(inputs)[2]
        set_drop_path(network, 0.3)
        torch.manual_seed(1)
        dropped = cell(inputs)[2]
    assert not torch.equal(dropped, expected)
    spread = dropped.std(0) / 4000**0.5
    assert ((dropped.mean(0) - expected[0]).abs() <= 5 * spread + 1e-12).all()


def test_drop_path_drops_operations_for_whole_images_in_training_only() -> None:
    torch.manual_seed(0)
    network = DARTS(channels=4, cells=3).network(GENOTYPE)
    x = torch.rand(4, 3, 16, 16)
    plain = network.eval()(x)
    set_drop_path(network, 0.5)
    torch.testing.assert_close(network(x), plain)
    network.train()
    torch.manual_seed(2)
    first = network(x)
    torch.manual_seed(2)
    torch.testing.assert_close(network(x), first)
    torch.manual_seed(3)
    assert not torch.allclose(network(x), first)
