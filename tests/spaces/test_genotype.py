from __future__ import annotations

import json

import pytest

from archgrad.errors import UserError
from archgrad.spaces.genotype import CellGenotype, Decision, Genotype

NB201 = "|nor_conv_3x3~0|+|none~0|skip_connect~1|+|none~0|none~1|nor_conv_1x1~2|"
CELL = CellGenotype((Decision(2, 0, "conv"), Decision(2, 1, "skip"), Decision(3, None, "conv")), (2, 3))


def test_a_cell_counts_its_decisions() -> None:
    assert CELL.inputs_of(2) == (Decision(2, 0, "conv"), Decision(2, 1, "skip"))
    assert (CELL.count("conv"), CELL.count("none")) == (2, 0)


def test_counting_takes_one_choice_or_many() -> None:
    genotype = Genotype.of({"a": CELL, "b": CELL})
    assert genotype.count("conv") == 4
    assert genotype.count(["conv", "skip"]) == 6
    assert genotype.count(()) == 0


def test_an_unknown_block_is_named_with_the_nearest() -> None:
    with pytest.raises(UserError, match="unknown block 'norml'; did you mean 'normal'"):
        Genotype.of({"normal": CELL})["norml"]


def test_two_blocks_of_one_name_are_refused() -> None:
    with pytest.raises(UserError, match="give each another name"):
        Genotype((("a", CELL), ("a", CELL)))


def test_json_and_dict_agree() -> None:
    genotype = Genotype.of({"a": CELL})
    assert json.loads(genotype.to_json()) == genotype.to_dict()
    assert genotype.to_dict() == {
        "format": "archgrad.genotype/1",
        "blocks": {
            "a": {
                "decisions": [
                    {"choice": "conv", "target": 2, "source": 0},
                    {"choice": "skip", "target": 2, "source": 1},
                    {"choice": "conv", "target": 3},
                ],
                "concat": [2, 3],
            }
        },
    }


def test_a_named_notation_is_used_or_refused_with_the_way_out() -> None:
    genotype = Genotype.parse(NB201)
    assert genotype.format("nasbench201") == str(genotype) == NB201
    assert genotype.format("json") == genotype.to_json()
    with pytest.raises(UserError, match=r"cannot be printed in the notation 'darts'.*Use 'json'"):
        genotype.format("darts")
    with pytest.raises(UserError, match=r"its blocks are \(none\)"):
        Genotype().format("darts")
    with pytest.raises(UserError, match="unknown notation 'jsn'; did you mean 'json'"):
        genotype.format("jsn")
