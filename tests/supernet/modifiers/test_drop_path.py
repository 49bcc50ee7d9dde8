"""Drop-path: right in frequency and scale, a function of the seed alone, and as differentiable as everything else."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from varied_spaces import VARIED_SPACES

from archgrad.errors import UserError
from archgrad.operations import Identity, Operation, Weighted
from archgrad.spaces import SPACES, Chain, Genotype
from archgrad.supernet import CellMixture, Edge, MixedCell
from archgrad.supernet.modifiers.drop_path import drop_path, kept_images
from tests.supernet.supernets import images, mixture_of, space_of, supernet_of

every_space = pytest.mark.parametrize("name", VARIED_SPACES)


class Triple(Operation):
    def forward(self, x: Tensor) -> Tensor:
        return 3 * x


def cell_of(*choices: type[Operation]) -> MixedCell:
    """One input, and a node that reads it by two edges with all the operations on each."""
    return MixedCell([Edge(0, 1, tuple(choice() for choice in choices)) for _ in range(2)], inputs=1, nodes=2)


def node_of(cell: MixedCell, weights: list[list[float]], probability: float, seed: int = 0, count: int = 4) -> Tensor:
    """Run a cell on images of ones and return each image's pixel."""
    rows = [[torch.tensor(weight) for weight in row] for row in weights]
    mixture = CellMixture(rows, (seed, "cell", 0), probability)
    return cell([torch.ones(count, 1, 1, 1)], mixture)[1].flatten()


# --- what is dropped -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("probability", [0.1, 0.3, 0.75])
def test_images_are_dropped_with_the_probability_and_the_rest_is_scaled(probability: float) -> None:
    count = 20_000
    factors = kept_images(torch.zeros(count, 1, 1, 1), probability, torch.Generator().manual_seed(0))
    assert factors.shape == (count, 1, 1, 1)
    torch.testing.assert_close(factors.unique(), torch.tensor([0.0, 1 / (1 - probability)]))
    deviation = (probability * (1 - probability) / count) ** 0.5
    assert abs((factors == 0).double().mean().item() - probability) < 4 * deviation


def test_the_precision_of_the_network_does_not_change_who_is_dropped() -> None:
    factors = [
        kept_images(torch.zeros(100, 1, 1, 1, dtype=dtype), 0.5, torch.Generator().manual_seed(3))
        for dtype in (torch.float32, torch.float64)
    ]
    assert factors[1].dtype == torch.float64
    assert torch.equal(factors[0].double(), factors[1])


def test_a_term_keeps_its_form_and_its_layout() -> None:
    x = torch.randn(5, 4, 3, 3, generator=torch.Generator().manual_seed(0)).to(memory_format=torch.channels_last)
    plain = drop_path(x, 0.5, torch.Generator().manual_seed(1))
    pair = drop_path(Weighted(x, torch.tensor(2.0)), 0.5, torch.Generator().manual_seed(1))
    assert isinstance(plain, Tensor)
    assert isinstance(pair, Weighted)
    assert plain.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(pair.tensor, plain)
    assert pair.weight == 2
    kept = plain.flatten(1).any(1)
    assert 0 < kept.sum() < 5
    torch.testing.assert_close(plain[kept], 2 * x[kept])


def test_the_mean_over_many_seeds_is_the_undropped_node() -> None:
    cell, weights = cell_of(Triple, Identity), [[0.5, 0.2], [0.1, 0.7]]
    undropped = node_of(cell, weights, 0.0)
    nodes = torch.cat([node_of(cell, weights, 0.4, seed, count=200) for seed in range(20)])
    torch.testing.assert_close(undropped, torch.full((4,), 2.7))
    assert abs(nodes.mean().item() - 2.7) < 0.1
    # Both edges are dropped alone: each image has one of four sums, all of them with the skip connections' 0.9.
    expected = torch.tensor([0.0, 0.3 / 0.6, 1.5 / 0.6, 1.8 / 0.6]) + 0.9
    torch.testing.assert_close(nodes.mul(1e4).round().unique() / 1e4, expected)
    assert abs((nodes < 0.95).double().mean().item() - 0.4**2) < 0.03


def test_every_operation_of_every_edge_draws_for_itself() -> None:
    def draw(row: int, choice: int, seed: int) -> tuple[float, ...]:
        weights = [[float((row, choice) == (i, j)) for j in range(2)] for i in range(2)]
        return tuple(node_of(cell_of(Triple, Triple), weights, 0.5, seed, count=64).tolist())

    cases = [(row, choice, seed) for row in range(2) for choice in range(2) for seed in range(2)]
    assert len({draw(*case) for case in cases}) == len(cases)
    assert draw(1, 0, 1) == draw(1, 0, 1)


def test_inactive_operations_do_not_move_the_draws_of_others() -> None:
    space = space_of("s2")
    net, mixture = supernet_of(space), mixture_of(space)
    active = {key: torch.ones_like(value, dtype=torch.bool) for key, value in mixture.items()}
    active["normal"][:, ::2] = False
    silenced = {key: value * active[key] for key, value in mixture.items()}
    actual = net(images(), mixture, active=active, seed=4, drop_path=0.5)
    torch.testing.assert_close(actual, net(images(), silenced, seed=4, drop_path=0.5), rtol=1e-4, atol=1e-4)


# --- whole supernets -----------------------------------------------------------------------------------------------


@every_space
def test_dropping_is_a_function_of_the_seed(name: str) -> None:
    space = space_of(name, cells=8 if isinstance(SPACES.create(name), Chain) else 3)  # a chain drops residuals only
    net, mixture = supernet_of(space), mixture_of(space)
    random_state = torch.get_rng_state()
    with torch.no_grad():
        undropped = net(images(), mixture, seed=1)
        assert torch.equal(undropped, net(images(), mixture, seed=1, drop_path=0.0))
        first = net(images(), mixture, seed=1, drop_path=0.3)
        assert torch.equal(first, net.eval()(images(), mixture, seed=1, drop_path=0.3))
        assert not torch.allclose(first, net(images(), mixture, seed=2, drop_path=0.3))
        assert not torch.allclose(first, undropped)
    assert torch.equal(random_state, torch.get_rng_state())


def test_skip_connections_are_spared() -> None:
    space = space_of("nasbench201")
    skips = "|skip_connect~0|+|skip_connect~0|skip_connect~1|+|none~0|skip_connect~1|skip_connect~2|"
    net, mixture = supernet_of(space), space.one_hot(Genotype.parse(skips))
    expected = net(images(), mixture)
    assert torch.equal(expected, net(images(), mixture, drop_path=0.9))
    active = {key: value.bool() for key, value in mixture.items()}
    assert torch.equal(expected, net(images(), mixture, active=active, drop_path=0.9))


@pytest.mark.parametrize("probability", [1, -0.1, float("nan"), "0.2", True])
def test_a_wrong_probability_is_explained(probability: object) -> None:
    space = space_of("s2")
    with pytest.raises(UserError, match=r"drop_path is .*; it must be a number from 0 to less than 1"):
        supernet_of(space)(images(), mixture_of(space), drop_path=probability)
