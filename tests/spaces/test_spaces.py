"""One suite that every search space passes, and what is particular to each."""

from __future__ import annotations

import dataclasses
import re

import pytest
import torch
import torch.nn.functional as F
from small_spaces import CHAINS, every_space, images, random_genotype
from torch import nn
from varied_spaces import small_space

from archgrad.discretizers import Argmax
from archgrad.errors import UserError
from archgrad.spaces import (
    DARTS,
    S1,
    SPACES,
    CellGenotype,
    Decision,
    Genotype,
    NASBench1Shot1,
    NASBench201,
    cost,
    known_cells,
)
from archgrad.spaces.shared_weights import copy_shared_weights
from archgrad.supernet import SupernetOptions
from archgrad.training.weight_training import WeightTraining

CELL = "|nor_conv_3x3~0|+|none~0|skip_connect~1|+|avg_pool_3x3~0|nor_conv_1x1~1|skip_connect~2|"


@every_space
def test_blocks_describe_the_supernet(name: str) -> None:
    space = small_space(name)
    net = space.supernet(num_classes=3)
    assert space.name == name
    assert net.shapes == {block.name: (block.cells, *block.shape) for block in space.blocks}
    for block in space.blocks:
        assert block.mask.shape == block.shape
        assert [int(count) for count in block.mask.sum(1)] == [len(row.choices) for row in block.rows]
        assert space.block(block.name) == block
        assert len({row.name for row in block.rows}) == len(block.rows)
        assert all(row.source is None or row.source < row.target for row in block.rows)
        assert block.on_edges == (not name.startswith("nasbench1shot1"))


@every_space
def test_the_depth_knob_is_a_size_of_the_space(name: str) -> None:
    space = small_space(name)
    assert space.depth_knob in {field.name for field in dataclasses.fields(space)}
    deeper = dataclasses.replace(space, **{space.depth_knob: getattr(space, space.depth_knob) + 3})
    layers = [sum(block.cells * len(block.rows) for block in one.blocks) for one in (space, deeper)]
    assert layers[0] < layers[1]


@every_space
def test_the_published_training_is_kept(name: str) -> None:
    training = small_space(name).weights
    assert isinstance(training, WeightTraining)
    assert (training.lr, training.lr_min, training.momentum, training.clip) == (0.025, 0.001, 0.9, 5.0)
    assert (training.batch_size, training.epochs) == {"amended": (96, 100), "nasbench1shot1": (96, 100)}.get(
        small_space(name).family, (64, 50)
    )
    expected = (5e-4, True) if name == "nasbench201" else (3e-4, False)
    assert (training.weight_decay, training.nesterov) == expected


@every_space
@pytest.mark.parametrize("size", [8, 7, 1])
def test_plain_networks_of_random_genotypes_train(name: str, size: int) -> None:
    space = small_space(name)
    genotype, x = random_genotype(space, size), images(size, 1)
    torch.manual_seed(0)
    net = space.network(genotype, num_classes=3, input_channels=1)
    logits = net(x)
    F.cross_entropy(logits, torch.tensor([0, 1, 2, 0])).backward()
    assert logits.shape == (4, 3)
    assert all(p.grad is None or p.grad.isfinite().all() for p in net.parameters())
    assert net.stem[0].weight.grad is not None
    norms = [m for m in net.modules() if isinstance(m, nn.BatchNorm2d) and m.affine]
    assert norms
    assert all(norm.track_running_stats for norm in norms)
    net.eval()
    with torch.no_grad():
        assert torch.equal(net(x), net(x)) or genotype.count("noise")


@every_space
def test_one_hot_marks_the_genotype(name: str) -> None:
    space = small_space(name)
    genotype = random_genotype(space, 1)
    mixture = space.one_hot(genotype)
    assert {key: tuple(value.shape) for key, value in mixture.items()} == space.supernet(num_classes=3).shapes
    for block in space.blocks:
        weights = mixture[block.name]
        assert torch.equal(weights.sum((1, 2)), torch.full((block.cells,), float(len(genotype[block.name].decisions))))
        for decision in genotype[block.name]:
            (row,) = [
                i for i, row in enumerate(block.rows) if (row.target, row.source) == (decision.target, decision.source)
            ]
            assert weights[0, row, block.rows[row].choices.index(decision.choice)] == 1
    assert Argmax().select(space, {key: value[0] for key, value in mixture.items()}) == genotype


@pytest.mark.parametrize("name", ["nasbench201", "s2", "darts", "amended-a1", "amended-a2", *CHAINS])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_one_hot_supernet_is_the_plain_network(name: str, seed: int) -> None:
    sizes = {"cells": 16 if name == "mobile" else 8} if name in CHAINS else {}  # with layers of stride 1
    space = small_space(name, **sizes)
    genotype = random_genotype(space, seed)
    if name in ("darts", "amended-a1"):  # its supernet normalizes pools, its plain network does not
        text = str(genotype).replace("max_pool_3x3", "sep_conv_5x5").replace("avg_pool_3x3", "dil_conv_5x5")
        genotype = Genotype.parse(text)
    torch.manual_seed(0)
    supernet, network = space.supernet(num_classes=3).double(), space.network(genotype, num_classes=3).double().train()
    copy_shared_weights(supernet, network)
    mixture = {key: value.double() for key, value in space.one_hot(genotype).items()}
    x = images().double()
    torch.testing.assert_close(network(x), supernet(x, mixture))
    active = {key: value.bool() for key, value in mixture.items()}
    torch.testing.assert_close(network(x), supernet(x, mixture, active=active))


@every_space
def test_a_space_completes_options_by_its_published_ones(name: str) -> None:
    space, published = small_space(name), (0.2, 0.0, 0.4) if name.startswith("amended") else (0.0, 0.0, 0.0)
    partial = 1 if name in CHAINS else 2  # no channels can bypass the layers of a chain
    found = space.completed_options(SupernetOptions(partial=partial))
    assert (found.partial, found.drop_path, found.skip_dropout, found.auxiliary_head) == (partial, *published)
    assert space.completed_options(SupernetOptions(drop_path=0.0)).drop_path == 0.0
    assert space.completed_options(found) == found


def test_a_normal_and_a_reduction_cell_need_two_cells() -> None:
    with pytest.raises(UserError, match="cells of the space 'darts' is 1; give at least 2, a normal and a reduction"):
        DARTS(cells=1)
    with pytest.raises(
        UserError, match="cells of the space 'nasbench1shot1-1' is 2; give at least 3, for two reductio"
    ):
        NASBench1Shot1(cells=2)


@pytest.mark.parametrize("name", ["darts", "s1", "s2", "s3", "s4", "amended-a1", "amended-a2"])
def test_two_cells_are_a_normal_and_a_reduction_cell(name: str) -> None:
    """The network of Amended-DARTS, A.3."""
    space = SPACES.constructor(name)(channels=4, cells=2)
    assert [(block.name, block.cells) for block in space.blocks] == (
        [("cell_00", 1), ("cell_01", 1)] if name == "amended-a2" else [("normal", 1), ("reduce", 1)]
    )
    options = SupernetOptions(auxiliary_head=0.4)
    net = space.supernet(options, num_classes=3)
    mixture = {b.name: (b.mask / b.mask.sum(-1, keepdim=True))[None].requires_grad_() for b in space.blocks}
    gradients = torch.autograd.grad(net(images(), mixture).square().sum(), list(mixture.values()))
    assert all(gradient.any() for gradient in gradients)
    genotype = random_genotype(space, 0)
    plain = space.network(genotype, num_classes=3, auxiliary_head=True).train()
    assert [output.shape for output in plain(images())] == [(4, 3), (4, 3)]
    widths = [cell.preprocess[1].conv.out_channels for cell in plain.cells]  # type: ignore[union-attr]
    assert widths == [4, 8]
    network = space.network(genotype, num_classes=3)
    assert space.cost(genotype, num_classes=3, image_size=8) == cost(network, image_size=8)


@every_space
def test_every_space_may_exclude_operations(name: str) -> None:
    full = small_space(name)
    rows = [row for block in full.blocks if block.kind == "operation" for row in block.rows]
    unwanted = "skip_connect" if name in ("nasbench201", "darts", "s3", "amended-a1") else rows[0].choices[0]
    space = dataclasses.replace(full, exclude=[unwanted])
    for before, block in zip(full.blocks, space.blocks, strict=True):
        assert [row.choices for row in block.rows] == [
            tuple(choice for choice in row.choices if choice != unwanted) for row in before.rows
        ]
    genotype = random_genotype(space, 0)
    full.check(genotype)
    assert genotype.count(unwanted) == 0
    assert space.supernet(num_classes=3)(images(), space.one_hot(genotype)).shape == (4, 3)
    assert space.network(genotype, num_classes=3)(images()).shape == (4, 3)
    with pytest.raises(UserError, match="unknown operation in exclude: 'conv_9x9'"):
        dataclasses.replace(full, exclude=("conv_9x9",))
    with pytest.raises(UserError, match="exclude removes every operation of the space"):
        dataclasses.replace(full, exclude=tuple(dict.fromkeys(choice for row in rows for choice in row.choices)))


def test_the_darts_space_without_none_has_seven_operations() -> None:
    """Λ-DARTS, A.9.2."""
    space = DARTS(channels=4, cells=3, exclude=("none",))
    assert [block.shape for block in space.blocks] == [(14, 7), (14, 7)]
    known = [cell.genotype for cell in known_cells().values() if cell.space is DARTS]
    assert known
    for genotype in known:
        assert space.cost(genotype) == DARTS(channels=4, cells=3).cost(genotype)
    even = {block.name: torch.full(block.shape, 1 / 7) for block in space.blocks}
    assert all(len(cell.decisions) == 8 for _, cell in Argmax().select(space, even).blocks)


# --- NAS-Bench-201 -------------------------------------------------------------------------------------------------


def test_nasbench201_as_published() -> None:
    space = NASBench201()
    (block,) = space.blocks
    assert (space.channels, block.cells, block.shape, block.keep, block.concat) == (16, 15, (6, 5), None, None)
    assert [row.name for row in block.rows] == ["1<-0", "2<-0", "2<-1", "3<-0", "3<-1", "3<-2"]
    choices = ("none", "skip_connect", "nor_conv_1x1", "nor_conv_3x3", "avg_pool_3x3")
    assert all(row.choices == choices for row in block.rows)
    assert not block.excluded


def test_a_cell_of_nothing_is_still_a_network() -> None:
    space = small_space("nasbench201")
    genotype = Genotype.parse("|none~0|+|none~0|none~1|+|none~0|none~1|none~2|")
    net = space.network(genotype, num_classes=3).eval()
    assert torch.equal(net(images())[0], net(images())[1])


# --- DARTS and the reduced spaces ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["darts", "s1", "s2", "s3", "s4"])
def test_darts_cells_as_published(name: str) -> None:
    space = SPACES.constructor(name)()
    normal, reduce = space.blocks
    assert (normal.name, normal.cells, reduce.name, reduce.cells) == ("normal", 6, "reduce", 2)
    for block in space.blocks:
        assert [row.name for row in block.rows[:5]] == ["2<-0", "2<-1", "3<-0", "3<-1", "3<-2"]
        assert (len(block.rows), block.targets, block.keep, block.concat) == (14, (2, 3, 4, 5), 2, (2, 3, 4, 5))
        assert block.excluded == {"none"}


@pytest.mark.parametrize(("cells", "reductions"), [(3, (1, 2)), (5, (1, 3)), (8, (2, 5)), (20, (6, 13))])
def test_reductions_stand_at_thirds(cells: int, reductions: tuple[int, int]) -> None:
    assert DARTS(cells=cells).reductions == reductions


def test_choices_of_the_spaces() -> None:
    expected = ("none", "max_pool_3x3", "avg_pool_3x3", "skip_connect")
    expected += ("sep_conv_3x3", "sep_conv_5x5", "dil_conv_3x3", "dil_conv_5x5")
    wanted = {
        "darts": expected,
        "s2": ("skip_connect", "sep_conv_3x3"),
        "s3": ("none", "skip_connect", "sep_conv_3x3"),
        "s4": ("noise", "sep_conv_3x3"),
    }
    for name, choices in wanted.items():
        assert {row.choices for block in SPACES.constructor(name)().blocks for row in block.rows} == {choices}


SKIP, MAX, AVG = "skip_connect", "max_pool_3x3", "avg_pool_3x3"
SEP3, DIL3, DIL5 = "sep_conv_3x3", "dil_conv_3x3", "dil_conv_5x5"


def test_s1_has_its_own_pair_on_every_edge() -> None:
    normal, reduce = S1().blocks
    assert [row.choices for row in normal.rows] == [
        (SKIP, DIL3), (SKIP, DIL5), (SKIP, DIL5), (SKIP, SEP3), (SKIP, DIL3), (MAX, SKIP), (SKIP, SEP3),
        (SKIP, SEP3), (SKIP, DIL3), (SKIP, SEP3), (MAX, SKIP), (SKIP, DIL3), (DIL3, DIL5), (DIL3, DIL5),
    ]  # fmt: skip
    assert [row.choices for row in reduce.rows] == [
        (MAX, AVG), (MAX, DIL3), (MAX, AVG), (MAX, AVG), (SKIP, DIL5), (MAX, AVG), (MAX, SEP3),
        (SKIP, DIL3), (SKIP, DIL5), (MAX, AVG), (MAX, AVG), (SKIP, DIL5), (SKIP, DIL5), (SKIP, DIL5),
    ]  # fmt: skip


def test_a_genotype_may_concatenate_other_nodes() -> None:
    space = small_space("darts")
    genotype = random_genotype(space, 0)
    blocks = {name: dataclasses.replace(cell, concat=(4, 5)) for name, cell in genotype.blocks}
    net = space.network(Genotype.of(blocks), num_classes=3)
    assert net.classifier.in_features == 4 * 4 * 2
    assert net(images()).shape == (4, 3)


def test_a_genotype_without_concatenation_uses_that_of_the_space() -> None:
    space = small_space("darts")
    blocks = {name: dataclasses.replace(cell, concat=None) for name, cell in random_genotype(space, 0).blocks}
    assert space.network(Genotype.of(blocks), num_classes=3).classifier.in_features == 4 * 4 * 4


# --- genotypes of other spaces -------------------------------------------------------------------------------------


def changed(genotype: Genotype, block: str, *decisions: Decision, drop: int = 0) -> Genotype:
    """Return the genotype with its first decisions dropped and others added."""
    cells = dict(genotype.blocks)
    cells[block] = CellGenotype((*decisions, *cells[block].decisions[drop:]), cells[block].concat)
    return Genotype.of(cells)


def test_a_genotype_of_another_space_is_refused() -> None:
    cell = Genotype.parse(CELL)
    with pytest.raises(UserError, match=r"this genotype has the blocks cell, but the space 'darts' has normal, reduce"):
        DARTS().check(cell)
    with pytest.raises(UserError, match=r"has the blocks none, but the space 'nasbench201' has cell; choose the space"):
        NASBench201().network(Genotype())


@pytest.mark.parametrize(
    ("decision", "drop", "message"),
    [
        (Decision(2, 0, "sep_conv_7x7"), 1, "on 2<-0 of block 'normal' in the space 'darts': 'sep_conv_7x7'; did you"),
        (Decision(2, 0, "none"), 1, "on 2<-0 of block 'normal' in the space 'darts': 'none'"),
        (Decision(6, 0, "skip_connect"), 1, "edge or node in skip_connect@6<-0 of block 'normal': '6<-0'"),
        (Decision(2, None, "skip_connect"), 1, "edge or node in skip_connect@2 of block 'normal': '2'"),
        (Decision(2, 0, "skip_connect"), 0, "block 'normal' decides 2<-0 twice; remove the extra decisions"),
        (None, 1, "node 2 of block 'normal' has 1 inputs in this genotype, but 2 in the space 'darts'"),
        (
            Decision(3, 2, "skip_connect"),
            0,
            "node 3 of block 'normal' has 3 inputs in this genotype, but 2 in the space 'darts'",
        ),
    ],
)
def test_a_genotype_that_does_not_fit_is_explained(decision: Decision | None, drop: int, message: str) -> None:
    space = small_space("darts")
    selection = {
        block.name: [(0, 3), (1, 3), (2, 3), (3, 3), (5, 3), (6, 3), (9, 3), (10, 3)] for block in space.blocks
    }
    genotype = changed(space.genotype(selection), "normal", *([decision] if decision else []), drop=drop)
    for use in (space.check, space.network, space.one_hot):
        with pytest.raises(UserError, match=re.escape(message)):
            use(genotype)


@pytest.mark.parametrize("concat", [(), (0, 2), (2, 6)])
def test_only_computed_nodes_can_be_concatenated(concat: tuple[int, ...]) -> None:
    space = small_space("darts")
    blocks = dict(random_genotype(space, 0).blocks)
    blocks["reduce"] = dataclasses.replace(blocks["reduce"], concat=concat)
    with pytest.raises(
        UserError, match=r"block 'reduce' concatenates \[.*\] in this genotype; choose from the nodes 2, 3"
    ):
        space.check(Genotype.of(blocks))


def test_nasbench201_concatenates_nothing() -> None:
    cell = dataclasses.replace(Genotype.parse(CELL)["cell"], concat=(3,))
    with pytest.raises(
        UserError, match=r"concatenates \[3\] in this genotype, but in the space 'nasbench201' the output"
    ):
        NASBench201().check(Genotype.of({"cell": cell}))


@pytest.mark.parametrize("name", ["nasbench1shot1-1", "nasbench1shot1-3"])
def test_networks_with_other_layers_share_no_weights(name: str) -> None:
    space = small_space(name)
    network = space.network(random_genotype(space, 0), num_classes=3)
    with pytest.raises(UserError, match="has other layers than its networks"):
        copy_shared_weights(space.supernet(num_classes=3), network)
