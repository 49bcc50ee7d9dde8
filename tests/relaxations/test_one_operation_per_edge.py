"""A supernet under GDAS computes one operation on every edge, forward and backward."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from varied_spaces import small_space

from archgrad.operations import Operation
from archgrad.relaxations import GumbelHard
from archgrad.spaces import SearchSpace
from archgrad.supernet import MixedCell, Supernet

LABELS = torch.tensor([0, 1, 2, 0])
EDGES = {"nasbench201": 6, "darts": 14}
every_space = pytest.mark.parametrize("name", EDGES)
every_sharing = pytest.mark.parametrize("per_cell", [False, True])
Place = tuple[int, int, int]
"""A cell, an edge of it, and an operation there."""


def images() -> Tensor:
    return torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(1))


def operations(net: Supernet) -> Iterator[tuple[Place, Operation]]:
    cells = [module for module in net.modules() if isinstance(module, MixedCell)]
    for cell, module in enumerate(cells):
        for edge, offered in enumerate(module.edges):
            for choice, operation in enumerate(offered):
                yield (cell, edge, choice), operation


def counted(net: Supernet, monkeypatch: pytest.MonkeyPatch) -> list[Place]:
    """Return the list to which every operation adds its place when it is run in a mixture."""
    places = {id(operation): place for place, operation in operations(net)}
    run: list[Place] = []

    def counting(method: Any) -> Any:
        def mixed(self: Operation, source: Any, weight: Tensor) -> Any:
            run.append(places[id(self)])
            return method(self, source, weight)

        return mixed

    for kind in {base for _, op in operations(net) for base in type(op).__mro__ if "mixed" in vars(base)}:
        monkeypatch.setattr(kind, "mixed", counting(vars(kind)["mixed"]))
    return run


def hooked(net: Supernet) -> list[Place]:
    """Return the list to which every convolution of an operation adds its operation's place when it is called."""
    called: list[Place] = []
    for place, operation in operations(net):
        for module in operation.modules():
            if isinstance(module, nn.Conv2d):
                module.register_forward_hook(lambda *_, place=place: called.append(place))
    return called


def drawn(space: SearchSpace, member: GumbelHard, seed: int) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    blocks = space.searched_blocks()
    alpha = member.init(blocks, torch.Generator().manual_seed(seed))
    for block in blocks:  # `none` would cut off what comes before it
        alpha[block.name][:, [index for index, name in enumerate(block.rows[0].choices) if name == "none"]] = -1e3
    relaxed = member.relax(blocks, alpha, member.noise(blocks, torch.Generator().manual_seed(seed)), 0.5)
    assert relaxed.active is not None
    return relaxed.mixture, relaxed.active


@every_space
@every_sharing
@pytest.mark.parametrize("seed", range(2))
def test_only_what_is_drawn_is_run_and_trained(
    name: str, per_cell: bool, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = small_space(name)
    torch.manual_seed(0)
    net = space.supernet(num_classes=3)
    run, called = counted(net, monkeypatch), hooked(net)
    mixture, active = drawn(space, GumbelHard(per_cell=per_cell), seed)
    F.cross_entropy(net(images(), mixture, active=active), LABELS).backward()
    cells = sum(block.cells for block in space.blocks)
    assert len(run) == cells * EDGES[name]
    assert len({(cell, edge) for cell, edge, _ in run}) == len(run)
    trainable = {place for place, operation in operations(net) if list(operation.parameters())}
    assert set(called) == set(run) & trainable
    for place, operation in operations(net):
        for parameter in operation.parameters():
            assert (parameter.grad is not None) == (place in run)
