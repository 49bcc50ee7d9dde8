"""Partial channels and edge weights as settings of a space."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from small_spaces import CHAINS, every_space
from torch import Tensor, nn
from varied_spaces import VARIED_SPACES, small_space

from archgrad.discretizers import Argmax
from archgrad.errors import UserError
from archgrad.operations import Identity
from archgrad.spaces import CellPlan, DecisionBlock, NASBench201, Row, SearchSpace
from archgrad.supernet import Edge, MixedCell, SupernetOptions
from archgrad.training.weight_training import WeightTraining

EDGES = SupernetOptions(edge_weights=True)
every_cell_space = pytest.mark.parametrize("name", [name for name in VARIED_SPACES if name not in CHAINS])


@every_cell_space
def test_every_node_has_a_row_of_its_edges(name: str) -> None:
    space = small_space(name)
    assert space.searched_blocks() == space.blocks
    count, searched = len(space.blocks), space.searched_blocks(EDGES)
    assert searched[:count] == space.blocks
    weighed = [block for block in space.blocks if block.on_edges]
    assert bool(weighed) == (not name.startswith("nasbench1shot1"))  # whose nodes weigh what they read anyway
    for block, edges in zip(weighed, searched[count:], strict=True):
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
    assert space.supernet(EDGES).shapes == {block.name: (block.cells, *block.shape) for block in searched}


@every_cell_space
def test_one_hot_mixtures_mark_the_kept_edges(name: str) -> None:
    space = small_space(name)
    generator = torch.Generator().manual_seed(0)
    genotype = Argmax().select(
        space, {b.name: torch.rand(b.shape, generator=generator) for b in space.searched_blocks(EDGES)}
    )
    mixture = space.one_hot(genotype, EDGES)
    assert {key: tuple(value.shape) for key, value in mixture.items()} == space.supernet(EDGES).shapes
    for block in (block for block in space.blocks if block.on_edges):
        edges = block.edges
        for cell in mixture[edges.name]:
            kept = {
                (row.target, int(row.choices[c])) for row, w in zip(edges.rows, cell, strict=True) for c in w.nonzero()
            }
            assert kept == {(decision.target, decision.source) for decision in genotype[block.name]}
            assert set(cell.unique().tolist()) <= {0.0, 1.0}
    plain = {key: value for key, value in mixture.items() if ".edges" not in key}
    torch.manual_seed(0)
    weighed = space.supernet(EDGES, num_classes=3)
    torch.manual_seed(0)
    unweighed = space.supernet(num_classes=3)
    x = torch.randn(3, 3, 8, 8, generator=generator)
    torch.testing.assert_close(weighed(x, mixture), unweighed(x, plain))


@every_space
@pytest.mark.parametrize("partial", [3, 8, 12])
def test_a_width_that_cannot_be_divided_is_explained(name: str, partial: int) -> None:
    message = (
        rf"supernet.partial is {partial}, .* the 4 channels of the space '{name}'; choose from 1, 2, 4, or another"
    )
    for make in (SearchSpace.completed_options, SearchSpace.supernet):
        with pytest.raises(UserError, match=message):
            make(small_space(name), SupernetOptions(partial))


@pytest.mark.parametrize("setting", [{"partial": 4}, {"auxiliary_skip": True}], ids=lambda setting: next(iter(setting)))
def test_cells_that_do_not_know_a_setting_are_refused(setting: dict[str, Any]) -> None:
    class Own(SearchSpace):
        name = "own"
        depth_knob = "channels"

        @property
        def blocks(self) -> tuple[DecisionBlock, ...]:
            return (DecisionBlock("only", 1, (Row(1, 0, ("skip",)),)),)

        @property
        def weights(self) -> WeightTraining:
            return WeightTraining()

        def build(self, plan: CellPlan, input_channels: int, num_classes: int) -> nn.Module:
            return nn.ModuleList([MixedCell([Edge(0, 1, (Identity(),))], 1, 2)])

    assert isinstance(Own().supernet(num_classes=3), nn.Module)
    ((name, value),) = setting.items()
    with pytest.raises(UserError, match=rf"space 'own' builds cells without {name}={value}; build .* with build_edges"):
        Own().supernet(SupernetOptions(**setting))


def test_edges_weigh_what_they_should() -> None:
    """Weights of ones in NAS-Bench-201, but for one edge: the row of that edge is scaled, no other."""
    supernet = NASBench201(channels=2, cells_per_stage=1).supernet(EDGES, num_classes=3).double()
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
