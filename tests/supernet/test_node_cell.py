"""Cells whose operations sit on nodes: what their nodes read, what is computed, and what their output is."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
import torch
from experiments import experiment_of
from torch import Tensor, nn

import archgrad as ag
from archgrad.config import SearchConfig
from archgrad.data import ImageData
from archgrad.diagnostics import diagnose, layer_similarity
from archgrad.loop.measuring import evaluate_at_state
from archgrad.method.progressive import Progressive
from archgrad.method.reactions import check_reaction
from archgrad.operations import ConvBNReLU
from archgrad.relaxations import Simplex
from archgrad.spaces import SearchSpace
from archgrad.supernet import MixedNodeCell

Mixture = dict[str, Tensor]
every_space = pytest.mark.parametrize("number", [1, 2, 3])


def small(number: int, **settings: Any) -> SearchSpace:
    return ag.spaces.NASBench1Shot1(number=number, channels=2, cells=3, **settings)


def images(size: int = 8) -> Tensor:
    return torch.randn(4, 3, size, size, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def net_of(space: SearchSpace) -> nn.Module:
    torch.manual_seed(0)
    return space.supernet(num_classes=3).double()


def mixture_of(space: SearchSpace, seed: int = 0) -> Mixture:
    generator = torch.Generator().manual_seed(seed)
    mixture = {}
    for block in space.blocks:
        logits = torch.randn(block.cells, *block.shape, generator=generator, dtype=torch.float64)
        mixture[block.name] = logits.masked_fill(~block.mask, -torch.inf).softmax(-1)
    return mixture


@every_space
def test_there_are_three_kinds_of_decisions(number: int) -> None:
    parents = {1: (1, 2, 2, 2, 2), 2: (1, 1, 2, 2, 3), 3: (1, 1, 1, 2, 2, 2)}[number]
    operations, inputs, output = ag.spaces.NASBench1Shot1(number=number).blocks
    assert (operations.name, inputs.name, output.name) == ("operations", "inputs", "output")
    assert [block.kind for block in (operations, inputs, output)] == ["operation", "edge", "edge"]
    assert {block.cells for block in (operations, inputs, output)} == {9}
    choices = ("maxpool3x3", "conv3x3-bn-relu", "conv1x1-bn-relu")
    assert [(row.target, row.choices) for row in operations.rows] == [(n, choices) for n in range(1, len(parents))]
    for row in (*inputs.rows, *output.rows):
        assert row.choices == tuple(map(str, range(row.target)))
        assert row.picks == parents[row.target - 1] < row.target
    without = set(range(1, len(parents))) - {row.target for row in inputs.rows}
    assert without == ({1, 2} if number == 1 else {1})
    assert sum(parents) == 9  # as many edges as NAS-Bench-101 allows


def calls_in(net: nn.Module) -> Counter[str]:
    calls: Counter[str] = Counter()

    def counting(name: str) -> Any:
        return lambda *_: calls.update([name])

    for name, module in net.named_modules():
        if isinstance(module, ConvBNReLU):
            module.register_forward_hook(counting(name))
    return calls


def test_what_leads_nowhere_is_not_computed() -> None:
    space = small(3)
    net = net_of(space)
    text = "[conv3x3-bn-relu~0][conv1x1-bn-relu~1][maxpool3x3~0][conv3x3-bn-relu~1,3][conv1x1-bn-relu~0,2][output~0,5]"
    mixture = {key: value.double() for key, value in space.one_hot(ag.Genotype.parse(text)).items()}
    calls = calls_in(net)
    logits = net(images(), mixture, active={key: value.bool() for key, value in mixture.items()})
    cells = {f"body.cells.{cell}" for cell in range(3)}
    # Nodes 1, 2 and 5 with their operations; the input as 1, 5 and the output read it.
    computed = ("edges.0.1", "edges.1.2", "edges.4.2", "projections.0", "projections.4", "projections.5")
    assert calls == Counter({f"{cell}.{name}": 1 for cell in cells for name in computed})
    torch.testing.assert_close(logits, net(images(), mixture))


def test_nothing_but_the_input_may_reach_the_output() -> None:
    space = small(2)
    net, mixture = net_of(space), mixture_of(space)
    active = {key: torch.zeros_like(value, dtype=torch.bool) for key, value in mixture.items()}
    active["output"][..., 0] = True
    calls = calls_in(net)
    logits = net(images(), mixture, active=active)
    assert set(calls) == {f"body.cells.{cell}.projections.4" for cell in range(3)}
    x = net.body.stem(images())
    for cell in range(3):
        x = torch.nn.functional.max_pool2d(x, 2, 2) if cell else x
        x = mixture["output"][cell, 0, 0] * net.body.cells[cell].projections[4](x)
    torch.testing.assert_close(logits, net.body.classifier(net.body.postprocess(x).mean((2, 3))))
    active["output"][...] = False
    torch.testing.assert_close(net(images(), mixture, active=active), net.body.classifier.bias.expand(4, 3))


def test_a_node_reads_what_its_weights_say() -> None:
    """The second cell of space 1 by hand, from the values that the supernet's own modules give."""
    space = small(1)
    net, mixture = net_of(space), mixture_of(space)
    seen: list[tuple[Tensor, list[Tensor]]] = []
    cell = net.body.cells[1]
    cell.register_forward_hook(lambda module, given, nodes: seen.append((given[0], nodes)))
    net(images(), mixture)
    ((x, nodes),) = seen
    operations, inputs, output = (mixture[name][1] for name in ("operations", "inputs", "output"))
    given = [projection(x) for projection in cell.projections]

    def node(number: int, entered: Tensor) -> Tensor:
        weights = operations[number - 1]
        return sum(weight * module(entered) for weight, module in zip(weights, cell.edges[number - 1], strict=True))

    first = node(1, given[0])
    second = node(2, given[1] + first)  # both, as it has no choice
    third = node(3, inputs[0, 0] * given[2] + inputs[0, 1] * first + inputs[0, 2] * second)
    before = inputs[1, 0] * given[3] + inputs[1, 1] * first + inputs[1, 2] * second + inputs[1, 3] * third
    fourth = node(4, before)
    parts = [weight * part for weight, part in zip(output[0, 1:], (first, second, third, fourth), strict=True)]
    assert len(nodes) == 10
    torch.testing.assert_close(nodes[7:9], [before, fourth])
    torch.testing.assert_close(nodes[-1], torch.cat(parts, 1) + output[0, 0] * given[4])


def test_a_restricted_cell_reads_what_is_left() -> None:
    full = small(3)
    kept = {
        "operations": [["maxpool3x3"]] * 5,
        "inputs": [["1"], ["0", "2"], ["1", "2", "3"], ["0", "4"]],
        "output": [["0", "3", "5"]],
    }
    space = full.restricted(kept)
    nets = [net_of(full), net_of(space)]
    shared = dict(nets[0].named_parameters())
    with torch.no_grad():  # nodes pool, so that all weights are those of projections and of the skeleton
        for name, value in nets[1].named_parameters():
            value.copy_(shared[name])
    narrow = mixture_of(space)
    wide = {block.name: torch.zeros(block.cells, *block.shape, dtype=torch.float64) for block in full.blocks}
    for before, block in zip(full.blocks, space.blocks, strict=True):
        for row, (old, new) in enumerate(zip(before.rows, block.rows, strict=True)):
            for place, choice in enumerate(new.choices):
                wide[block.name][:, row, old.choices.index(choice)] = narrow[block.name][:, row, place]
    torch.testing.assert_close(nets[1](images(), narrow), nets[0](images(), wide), rtol=1e-12, atol=1e-12)


def test_restrictions_must_leave_what_is_picked() -> None:
    with pytest.raises(ag.errors.UserError, match=r"leaves 1 on row 4 of block 'inputs', but .* picks 2; leave"):
        small(3).restricted({"inputs": [["0"], ["0"], ["1"], ["0", "1"]]})


@pytest.mark.parametrize("number", [0, 4, "1", True, None])
def test_other_numbers_are_no_spaces(number: Any) -> None:
    with pytest.raises(ag.errors.UserError, match="number of NAS-Bench-1Shot1"):
        ag.spaces.NASBench1Shot1(number=number)


@pytest.mark.parametrize("sparse", [False, True])
def test_cells_of_one_stage_are_compared_node_by_node(sparse: bool) -> None:
    """Five nodes before and after their operations, and the output; of two cells, though one node leads nowhere."""
    pixels = torch.randint(256, (16, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    data = ImageData("noise", pixels, torch.arange(16) % 3, tuple("abc"))
    space = ag.spaces.NASBench1Shot1(number=3, channels=2, cells=6)

    method = replace(ag.recipes.gaea(), relaxation=Simplex(skip_zero=sparse))
    setup = experiment_of(space, method, data, SearchConfig(epochs=1, batch_size=8))
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        state = setup.initial_state()
    if sparse:
        state.alpha["output"][0, 5] = 0.0
    with evaluate_at_state(setup, state, setup.step_batches(0)) as point:
        stages = layer_similarity(point, state.supernet)
    assert [(stage.channels, stage.cells) for stage in stages] == [(10, 2), (20, 2), (40, 2)]
    assert all(-1 <= stage.node_gradients <= 1 and stage.convolutions is not None for stage in stages)
    assert sum(isinstance(module, MixedNodeCell) for module in state.supernet.modules()) == 6


def test_settings_about_skip_connections_are_refused_where_there_are_none() -> None:
    space = small(3)
    with pytest.raises(ag.errors.UserError, match=r"skip_dropout is 0\.2, but no choice of the space 'nasb"):
        replace(ag.recipes.darts(), supernet=ag.SupernetOptions(skip_dropout=0.2)).check(space)
    for reaction in ("stop", "switch"):
        with pytest.raises(ag.errors.UserError, match="offers neither skip connections nor `none` to collapse into"):
            check_reaction(reaction, ag.recipes.darts(), space)
    check_reaction("warn", ag.recipes.darts(), space)
    staged = replace(ag.recipes.darts(), progressive=Progressive((3,), (8, 3), (0.0, 0.4)))
    assert [staged.in_stage(number, space).supernet.skip_dropout for number in (0, 1)] == [0.0, 0.0]
    assert staged.in_stage(1, ag.spaces.DARTS()).supernet.skip_dropout == 0.4


def test_the_doctor_does_not_speak_of_skip_connections_that_no_row_offers() -> None:
    records = [{"epoch": n, "skip_share": 0.0, "entropy": 1.2 - n / 50, "alignment": 0.01} for n in range(1, 9)]
    assert not any("skip" in sentence for sentence in diagnose(records, 10).sentences)
    offered = [record | {"skip_weight": 0.1} for record in records]
    assert any("skip connections are 0 %" in sentence for sentence in diagnose(offered, 10).sentences)
