from __future__ import annotations

import dataclasses

import pytest
import torch

from archgrad.errors import UserError
from archgrad.spaces.block import DecisionBlock, Row, edge_rows

EDGE = Row(2, 0, ("none", "skip", "conv"))
NODE = Row(3, None, ("skip", "conv"))


def test_rows_are_named_by_edge_or_node() -> None:
    assert (EDGE.name, NODE.name) == ("2<-0", "3")


def test_rows_of_different_lengths_are_masked() -> None:
    block = DecisionBlock("cell", 4, (EDGE, NODE))
    assert block.shape == (2, 3)
    assert torch.equal(block.mask, torch.tensor([[True, True, True], [True, True, False]]))
    assert block.mask is block.mask


def test_targets_come_in_order_and_once() -> None:
    rows = (Row(3, 0, ("a",)), Row(2, 0, ("a",)), Row(3, 1, ("a",)))
    assert DecisionBlock("cell", 1, rows).targets == (3, 2)


def test_edges_of_lists_every_edge() -> None:
    rows = edge_rows([(1, range(1)), (2, range(2)), (3, range(3))], ("a", "b"))
    assert [row.name for row in rows] == ["1<-0", "2<-0", "2<-1", "3<-0", "3<-1", "3<-2"]
    assert all(row.choices == ("a", "b") for row in rows)


def test_blocks_are_values() -> None:
    block = DecisionBlock("cell", 1, (EDGE,), keep=2, excluded=frozenset({"none"}), concat=(2,))
    assert block == dataclasses.replace(block)
    assert hash(block) == hash(dataclasses.replace(block))
    with pytest.raises(dataclasses.FrozenInstanceError):
        block.cells = 2  # type: ignore[misc]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": ()}, "block 'cell' needs at least one row"),
        ({"rows": (Row(1, 0, ()),)}, "each row at least one choice"),
        ({"rows": (Row(1, 0, ("a", "b", "a")),)}, "row 1<-0 of block 'cell' offers a choice twice"),
        ({"cells": 0}, "cells of DecisionBlock is 0; it must be at least 1"),
        ({"keep": 0}, "keep of DecisionBlock is 0; it must be at least 1 and a whole number or None"),
        ({"excluded": frozenset({"none", "skip", "conv"})}, "row 2<-0 of block 'cell' offers only excluded choices"),
    ],
)
def test_impossible_blocks_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        dataclasses.replace(DecisionBlock("cell", 1, (EDGE,)), **change)  # type: ignore[arg-type]
