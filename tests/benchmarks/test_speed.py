"""The speed benchmark measures what it says; how fast anything is is not for tests."""

from __future__ import annotations

import pytest
import torch

from archgrad.benchmarks import speed
from archgrad.errors import UserError
from archgrad.spaces import SPACES

TINY = speed.Case("nasbench201", 2, 1, 8, 8)


def test_every_space_is_measured_at_two_sizes():
    names = [case.space for case in speed.cases()]
    assert sorted(set(names)) == sorted(SPACES)
    assert all(names.count(name) == 2 for name in SPACES)
    assert {case.space for case in speed.cases("s2")} == {"s2"}


def test_unknown_spaces_are_named():
    with pytest.raises(UserError, match="did you mean 'darts'"):
        speed.cases("dart")


@pytest.mark.parametrize("case", [TINY, speed.Case("darts", 2, 3, 8, 4)])
def test_a_measurement_is_complete_and_prints(case):
    threads = torch.get_num_threads()
    row = speed.measure(case, repeats=1, memory=False)
    assert torch.get_num_threads() == threads
    values = (row.reference, row.fused, row.architecture, row.floor, row.loader)
    assert all(value > 0 for value in values)
    assert row.to_dict()["case"]["space"] == case.space
    assert case.space in str(row)
    assert str(row).index("|") == speed.HEADER.index("|")


def test_the_floor_runs_every_convolution():
    space = TINY.build()
    net = space.supernet()
    mixture = {block.name: torch.full((block.cells, *block.shape), 0.2) for block in space.blocks}
    seen = []
    convolutions = [module for module in net.modules() if isinstance(module, torch.nn.Conv2d)]
    step = speed._convolutions(net, torch.randn(2, 3, 8, 8), mixture)
    hooks = [module.register_forward_hook(lambda module, *_: seen.append(module)) for module in convolutions]
    step()
    for hook in hooks:
        hook.remove()
    assert set(map(id, seen)) == set(map(id, convolutions))


def test_peak_memory_is_measured_in_this_process():
    assert speed._peak(TINY, "fused") >= 0
