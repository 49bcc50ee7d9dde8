"""A space may offer fewer of its choices, on each row others, and is a space like any other."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import torch
from small_spaces import every_space, random_genotype
from varied_spaces import small_space

from archgrad.errors import UserError
from archgrad.spaces import DARTS, DecisionBlock, Genotype, NASBench201, SearchSpace, edge_rows
from archgrad.spaces.staged import StagedSpace


def drawn_choices(space: SearchSpace, seed: int) -> dict[str, list[list[str]]]:
    """Draw a subset of each row's choices, in any order, that leaves an operation a genotype may contain."""
    draw = random.Random(seed)  # noqa: S311

    def subset(block: DecisionBlock, choices: tuple[str, ...], picks: int) -> list[str]:
        sure = draw.sample([choice for choice in choices if choice not in block.excluded], picks)
        kept = [*sure, *(choice for choice in choices if choice not in sure and draw.random() < 0.4)]
        return draw.sample(kept, len(kept))

    return {block.name: [subset(block, row.choices, row.picks) for row in block.rows] for block in space.blocks}


def uniform(space: SearchSpace) -> dict[str, torch.Tensor]:
    blocks = {block.name: block.mask / block.mask.sum(-1, keepdim=True) for block in space.searched_blocks()}
    return {block.name: blocks[block.name].expand(block.cells, -1, -1) for block in space.searched_blocks()}


@pytest.mark.parametrize("seed", range(2))
@every_space
def test_a_restricted_space_is_a_space_like_any_other(name: str, seed: int) -> None:
    full = small_space(name)
    wanted = drawn_choices(full, seed)
    space = full.restricted(wanted)
    for before, block in zip(full.blocks, space.blocks, strict=True):
        assert (block.name, block.cells, block.keep, block.concat) == (
            before.name,
            before.cells,
            before.keep,
            before.concat,
        )
        for old, row, names in zip(before.rows, block.rows, wanted[block.name], strict=True):
            assert (row.target, row.source) == (old.target, old.source)
            assert row.choices == tuple(choice for choice in old.choices if choice in names)
    assert hash(space) == hash(full.restricted(wanted))
    logits = space.supernet(num_classes=3, input_channels=1)(torch.rand(2, 1, 8, 8), uniform(space))
    assert logits.shape == (2, 3)
    genotype = random_genotype(space, seed)
    space.check(genotype)
    full.check(genotype)
    assert Genotype.parse(str(genotype)) == genotype
    mixture = space.one_hot(genotype)
    assert {key: tuple(value.shape[1:]) for key, value in mixture.items()} == {b.name: b.shape for b in space.blocks}
    torch.manual_seed(seed)
    plain = space.network(genotype)
    torch.manual_seed(seed)
    same = full.network(genotype)
    assert all(torch.equal(a, b) for a, b in zip(plain.parameters(), same.parameters(), strict=True))


def test_the_restricted_supernet_computes_what_the_full_one_does_where_the_rest_weighs_nothing() -> None:
    full = NASBench201(channels=4, cells_per_stage=1)
    rows = [["skip_connect", "avg_pool_3x3"], ["none"], ["avg_pool_3x3"], ["skip_connect"], ["none", "skip_connect"]]
    space = full.restricted({"cell": [*rows, ["avg_pool_3x3", "none"]]})
    nets = [one.supernet(num_classes=3, input_channels=1).double() for one in (full, space)]
    shared = dict(nets[0].named_parameters())
    with torch.no_grad():  # no row has a convolution, so that all weights are those of the skeleton
        for name, value in nets[1].named_parameters():
            value.copy_(shared[name])
    narrow = torch.rand(3, 6, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    narrow = narrow * space.blocks[0].mask
    wide = torch.zeros(3, 6, 5, dtype=torch.float64)
    for row, (old, new) in enumerate(zip(full.blocks[0].rows, space.blocks[0].rows, strict=True)):
        for place, choice in enumerate(new.choices):
            wide[:, row, old.choices.index(choice)] = narrow[:, row, place]
    x = torch.rand(2, 1, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(nets[1](x, {"cell": narrow}), nets[0](x, {"cell": wide}), rtol=1e-12, atol=1e-12)


def test_restrictions_add_up_and_leave_other_blocks_alone() -> None:
    space = replace(DARTS(channels=4, cells=3))
    once = space.restricted({"normal": [("none", "skip_connect", "sep_conv_3x3")] * 14})
    twice = once.restricted({"normal": [("sep_conv_3x3",)] * 7 + [("skip_connect", "none")] * 7})
    assert {row.choices for row in twice.block("normal").rows} == {("sep_conv_3x3",), ("none", "skip_connect")}
    assert twice.block("reduce") == space.block("reduce")
    with pytest.raises(UserError, match="unknown choice on row 2<-0 of block 'normal': 'dil_conv_3x3'"):
        once.restricted({"normal": [("dil_conv_3x3",)] * 14})


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        ({"cel": [("none",)] * 6}, "unknown block of the space 'nasbench201': 'cel'; did you mean 'cell'"),
        ({"cell": [("none",)] * 5}, "is for 5 rows, but the block has 6; give the choices of every row: 1<-0, 2<-0"),
        ({"cell": [("none",)] * 5 + [()]}, "leaves no choice on row 3<-2 of block 'cell'; leave at least one of none,"),
        ({"cell": [("skip",)] * 6}, "unknown choice on row 1<-0 of block 'cell': 'skip'; did you mean 'skip_connect'"),
        ({"cell": ["none"] * 6}, r"has the text 'none' on a row; give a list, such as \['none'\]"),
    ],
)
def test_what_cannot_be_restricted_is_refused_in_a_sentence(wanted: dict[str, list[str]], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        NASBench201(channels=4, cells_per_stage=1).restricted(wanted)


def test_a_space_that_does_not_heed_its_restriction_says_so() -> None:
    class Heedless(StagedSpace):
        name = "heedless"
        operations = NASBench201().operations

        @property
        def blocks(self) -> tuple[DecisionBlock, ...]:
            return (DecisionBlock("cell", 3, edge_rows([(1, [0])], ("none", "skip_connect"))),)

    space = Heedless(channels=4, cells_per_stage=1)
    with pytest.raises(UserError, match=r"pass each of its blocks through self.apply_restriction\(\) in blocks"):
        space.restricted({"cell": [("skip_connect",)]})
