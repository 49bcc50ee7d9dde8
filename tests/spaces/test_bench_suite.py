"""The nine spaces of DARTS-Bench-Suite."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from small_spaces import images, random_genotype

import archgrad as ag
from archgrad.errors import UserError
from archgrad.operations import FactorizedReduce, Identity
from archgrad.spaces import DARTS, SPACES, DARTSWide, Genotype
from archgrad.spaces.shared_weights import copy_shared_weights

SIZES = {"darts-wide": (18, 4, 14), "darts-deep": (7, 18, 14), "darts-single": (26, 1, 44)}
NAMES = [kind + skips for kind in SIZES for skips in ("", "-no-skip", "-all-skip")]


@pytest.mark.parametrize("name", NAMES)
def test_sizes_and_operations_are_the_published_ones(name: str) -> None:
    space = SPACES.create(name)
    channels, cells, edges = SIZES["-".join(name.split("-")[:2])]
    assert (space.name, space.channels, space.cells, space.family) == (name, channels, cells, "darts")  # type: ignore[attr-defined]
    assert dict(space.compared_at) == {"channels": channels, "cells": cells}
    operations = DARTS().blocks[0].rows[0].choices
    wanted = tuple(one for one in operations if one != "skip_connect") if name.endswith("no-skip") else operations
    for block in space.blocks:
        assert (len(block.rows), {row.choices for row in block.rows}) == (edges, {wanted})
    assert sum(block.cells for block in space.blocks) == cells


def test_the_single_cell_reduces_and_has_eight_nodes() -> None:
    (block,) = SPACES.create("darts-single").blocks
    assert (block.name, block.targets, block.concat) == ("reduce", tuple(range(2, 10)), (6, 7, 8, 9))
    genotype = random_genotype(SPACES.create("darts-single"))
    assert Genotype.parse(str(genotype)) == genotype
    network = SPACES.constructor("darts-single")(channels=2).network(genotype)
    assert network.classifier.in_features == 4 * 2 * 2  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["darts-wide-all-skip", "darts-single-all-skip"])
def test_a_one_hot_supernet_with_added_skips_is_the_plain_network(name: str) -> None:
    space = SPACES.constructor(name)(channels=4)
    text = str(random_genotype(space)).replace("max_pool_3x3", "sep_conv_5x5").replace("avg_pool_3x3", "dil_conv_5x5")
    genotype = Genotype.parse(text)
    torch.manual_seed(0)
    supernet, network = space.supernet(num_classes=3).double(), space.network(genotype, num_classes=3).double().train()
    copy_shared_weights(supernet, network)
    mixture = {key: value.double() for key, value in space.one_hot(genotype).items()}
    torch.testing.assert_close(network(images().double()), supernet(images().double(), mixture))


def test_each_edge_has_one_added_skip_for_all_its_operations() -> None:
    """On the simplex, Σ p·(o(x) + s(x)) is Σ p·o(x) + s(x): the auxiliary skip connection of weight 1."""
    cells = DARTSWide(channels=4, skips="all-skip").supernet().body.cells
    assert [type(one) for one in cells[0].cell.added] == [Identity] * 14
    assert [isinstance(one, FactorizedReduce) for one in cells[1].cell.added] == [
        row.source < 2 for row in DARTS().blocks[1].rows
    ]
    assert len(DARTSWide(channels=4).supernet().body.cells[0].cell.added) == 0


def test_unknown_skips_are_refused() -> None:
    with pytest.raises(UserError, match=r"skips of the space .* 'some'"):
        DARTSWide(skips="some")  # type: ignore[arg-type]


SMALL = ("--channels", 4, "--epochs", 1, "--limit", 60, "--batch-size", 20)


@pytest.mark.parametrize("name", ["darts-deep-no-skip", "darts-single-all-skip"])
def test_what_is_found_is_trained_at_the_depth_of_the_search(archgrad: Any, name: str) -> None:
    cells = ("--cells", 3) if "deep" in name else ()
    archgrad.run("search", "--space", name, *SMALL, *cells, "--out", "found")
    for command in (["cost", "found"], ["draw", "found"], ["train", "found", *SMALL, *cells, "--out", "run"]):
        archgrad.run(*command)
    model = ag.Model.load("run")
    assert (model.space.name, model.space.cells) == (name, 3 if cells else 1)  # type: ignore[attr-defined]


def test_layer_alignment_needs_more_than_one_cell(archgrad: Any) -> None:
    err = archgrad.error("search", "--space", "darts-single", "--method", "lambda-darts", *SMALL, "--out", "run")
    assert "aligns cells that share their decisions, but in this space no two do" in " ".join(err.split())
