"""Partial channels and edge weights as settings of a space."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from archgrad.discretizers import Argmax
from archgrad.errors import UserError
from archgrad.operations import Identity
from archgrad.spaces import DARTS, SPACES, CellPlan, DecisionBlock, NASBench201, Row, SearchSpace, StagedSpace, named
from archgrad.supernet import Edge, MixedCell
from archgrad.training import WeightTraining

every_space = pytest.mark.parametrize("name", SPACES)


def small(name: str, **settings: object) -> SearchSpace:
    depth = {"cells_per_stage": 1} if name == "nasbench201" else {"cells": 3}
    return named(name)(**{"channels": 4, **depth, **settings})


@every_space
def test_every_node_has_a_row_of_its_edges(name: str) -> None:
    space = small(name, edge_weights=True)
    assert small(name).searched == space.blocks == small(name).blocks
    count = len(space.blocks)
    assert space.searched[:count] == space.blocks
    assert space.weighed == tuple(block for block in space.blocks if block.on_edges)
    assert bool(space.weighed) == (not name.startswith("nasbench1shot1"))  # whose nodes weigh what they read anyway
    for block, edges in zip(space.weighed, space.searched[count:], strict=True):
        assert (edges.name, edges.cells, edges.kind, block.kind) == (
            f"{block.name}.edges",
            block.cells,
            "edge",
            "operation",
        )
        assert tuple(row.target for row in edges.rows) == block.targets
        for row in edges.rows:
            entering = [other for other in block.rows if other.target == row.target]
            assert row.source is None
            assert row.choices == tuple(str(other.source) for other in entering)
            assert row.picks == (len(entering) if block.keep is None else block.keep)
        for row, (node, place) in zip(block.rows, block.edge_places, strict=True):
            assert edges.rows[node].target == row.target
            assert edges.rows[node].choices[place] == str(row.source)
    assert space.supernet(num_classes=3).shapes == {block.name: (block.cells, *block.shape) for block in space.searched}


def test_the_edges_of_darts() -> None:
    normal = DARTS(edge_weights=True).searched[2]
    assert [row.choices for row in normal.rows] == [("0", "1"), ("0", "1", "2"), ("0", "1", "2", "3"), tuple("01234")]
    assert normal.shape == (4, 5)
    assert int(normal.mask.sum()) == 14


@every_space
def test_one_hot_mixtures_mark_the_kept_edges(name: str) -> None:
    space = small(name, edge_weights=True)
    generator = torch.Generator().manual_seed(0)
    genotype = Argmax().select(space, {b.name: torch.rand(b.shape, generator=generator) for b in space.searched})
    mixture = space.one_hot(genotype)
    assert {key: tuple(value.shape) for key, value in mixture.items()} == space.supernet(num_classes=3).shapes
    for block in space.weighed:
        edges = block.edges
        for cell in mixture[edges.name]:
            kept = {
                (row.target, int(row.choices[c])) for row, w in zip(edges.rows, cell, strict=True) for c in w.nonzero()
            }
            assert kept == {(decision.target, decision.source) for decision in genotype[block.name]}
            assert set(cell.unique().tolist()) <= {0.0, 1.0}
    plain = {key: value for key, value in mixture.items() if ".edges" not in key}
    torch.manual_seed(0)
    weighed = space.supernet(num_classes=3)
    torch.manual_seed(0)
    unweighed = dataclasses.replace(space, edge_weights=False).supernet(num_classes=3)
    x = torch.randn(3, 3, 8, 8, generator=generator)
    torch.testing.assert_close(weighed(x, mixture), unweighed(x, plain))


@every_space
def test_plain_networks_know_nothing_of_it(name: str) -> None:
    plain, space = small(name), small(name, partial=2, edge_weights=True)
    probabilities = {b.name: torch.rand(b.shape, generator=torch.Generator().manual_seed(1)) for b in space.searched}
    genotype = Argmax().select(space, probabilities)
    plain.check(genotype)
    networks = []
    for each in (plain, space):
        torch.manual_seed(0)
        networks.append(each.network(genotype).state_dict())
    assert networks[0].keys() == networks[1].keys()
    assert all(torch.equal(value, networks[1][key]) for key, value in networks[0].items())
    assert plain.cost(genotype) == space.cost(genotype)


@every_space
@pytest.mark.parametrize("partial", [3, 8, 12])
def test_a_width_that_cannot_be_divided_is_explained(name: str, partial: int) -> None:
    message = rf"partial of the space '{name}' is {partial}, .* its 4 channels; choose from 1, 2, 4, or another number"
    with pytest.raises(UserError, match=message):
        small(name, partial=partial)


@every_space
@pytest.mark.parametrize("value", [0, -2, 1.0, "2", True])
def test_a_bad_partial_is_explained(name: str, value: object) -> None:
    with pytest.raises(
        UserError, match=rf"partial of the space '{name}' is .*; it must be at least 1 and a whole number"
    ):
        small(name, partial=value)


@pytest.mark.parametrize("value", [1, "yes", None])
def test_bad_edge_weights_are_explained(value: object) -> None:
    with pytest.raises(UserError, match=r"edge_weights of the space 'nasbench201' is .*; it must be true or false"):
        NASBench201(edge_weights=value)  # type: ignore[arg-type]


def test_nodes_have_no_edges_to_weigh() -> None:
    block = DecisionBlock("nodes", 1, (Row(1, None, ("conv", "pool")),))
    with pytest.raises(UserError, match="block 'nodes' has operations at its nodes; edge weights need them on edges"):
        _ = block.edges


def test_a_space_of_ones_own_has_both() -> None:
    class Skips(StagedSpace):
        name = "skips"
        nodes = 3
        operations = {"skip": lambda site: Identity(), "also": lambda site: Identity()}  # noqa: RUF012

    space = Skips(channels=4, cells_per_stage=1, partial=2, edge_weights=True)
    mixture = {b.name: (b.mask / b.mask.sum(-1, keepdim=True)).expand(b.cells, -1, -1) for b in space.searched}
    assert space.supernet(num_classes=3)(torch.randn(2, 3, 8, 8), mixture).shape == (2, 3)


@pytest.mark.parametrize("setting", [{"partial": 4}, {"auxiliary_skip": True}], ids=lambda setting: next(iter(setting)))
def test_cells_that_do_not_know_a_setting_are_refused(setting: dict[str, Any]) -> None:
    class Own(SearchSpace):
        name = "own"
        depth_knob = "channels"

        @property
        def blocks(self) -> tuple[DecisionBlock, ...]:
            return (DecisionBlock("only", 1, (Row(1, 0, ("skip",)),)),)

        @property
        def training(self) -> WeightTraining:
            return WeightTraining()

        def build(self, plan: CellPlan, input_channels: int, num_classes: int) -> nn.Module:
            return nn.ModuleList([MixedCell([Edge(0, 1, (Identity(),))], 1, 2)])

    assert isinstance(Own().supernet(num_classes=3), nn.Module)
    ((name, value),) = setting.items()
    with pytest.raises(
        UserError, match=rf"space 'own' builds cells that do not know {name}={value}; build .* by build_edges"
    ):
        Own(**setting).supernet(num_classes=3)


def test_edges_weigh_what_they_should() -> None:
    """Weights of ones in NAS-Bench-201, but for one edge: the row of that edge is scaled, no other."""
    space = NASBench201(channels=2, cells_per_stage=1, edge_weights=True)
    supernet = space.supernet(num_classes=3).double()
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(3, 3, 8, 8, generator=generator, dtype=torch.float64)
    operations = torch.rand(3, 6, 5, generator=generator, dtype=torch.float64)
    for row, (node, place) in enumerate([(0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2)]):
        edges = torch.ones(3, 3, 3, dtype=torch.float64)
        edges[:, node, place] = 0.3
        scaled: Tensor = operations.clone()
        scaled[:, row] *= 0.3
        torch.testing.assert_close(
            supernet(x, {"cell": operations, "cell.edges": edges}),
            supernet(x, {"cell": scaled, "cell.edges": torch.ones_like(edges)}),
        )
