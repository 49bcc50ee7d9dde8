from __future__ import annotations

import dataclasses

import pytest
import torch

from archgrad.discretizers import strongest_choices
from archgrad.errors import UserError
from archgrad.spaces.block import DecisionBlock, Row
from archgrad.spaces.genotype import CellGenotype, Decision, Genotype, check_cell

EDGE = Row(2, 0, ("none", "skip", "conv"))
NODE = Row(3, None, ("skip", "conv"))


def test_rows_of_different_lengths_are_masked() -> None:
    block = DecisionBlock("cell", 4, (EDGE, NODE))
    assert block.shape == (2, 3)
    assert torch.equal(block.mask, torch.tensor([[True, True, True], [True, True, False]]))
    assert block.mask is block.mask


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


# --- rows of which a genotype picks several choices, as the inputs of a node -----------------------------------------

BLOCK = DecisionBlock("inputs", 1, (Row(2, None, ("0", "1")), Row(3, None, ("0", "1", "2"), picks=2)))
CHOSEN = ((2, None, "1"), (3, None, "0"), (3, None, "2"))


def cell(*decisions: tuple[int, None, str]) -> CellGenotype:
    return CellGenotype(tuple(Decision(*decision) for decision in decisions))


def test_the_strongest_choices_are_picked():
    weights = torch.tensor([[0.4, 0.6, 0.0], [0.5, 0.1, 0.4]])
    assert strongest_choices(BLOCK, weights, None) == [(0, 1), (1, 0), (1, 2)]


def test_a_genotype_holds_several_choices_of_a_row():
    check_cell("toy", BLOCK, cell(*CHOSEN))
    genotype = Genotype.of({"inputs": cell(*CHOSEN)})
    assert Genotype.parse(str(genotype)) == genotype


@pytest.mark.parametrize(
    "decisions",
    [CHOSEN[:2], CHOSEN[1:], (*CHOSEN, (3, None, "1")), (*CHOSEN[:2], CHOSEN[1]), (*CHOSEN, (2, None, "0"))],
)
def test_too_few_too_many_and_repeated_choices_are_refused(decisions):
    with pytest.raises(UserError, match="block 'inputs'"):
        check_cell("toy", BLOCK, cell(*decisions))


@pytest.mark.parametrize("picks", [0, 3])
def test_a_row_cannot_pick_more_than_it_offers(picks):
    with pytest.raises(UserError, match="picks"):
        DecisionBlock("b", 1, (Row(1, None, ("x", "y"), picks=picks),))
