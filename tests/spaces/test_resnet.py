"""Residual networks."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import archgrad as ag
from archgrad.errors import UserError
from archgrad.spaces import RESNET, ResNet


@pytest.mark.parametrize(("depth", "parameters"), [(3, 269_722), (5, 464_154), (9, 853_018)])
def test_published_sizes(depth: int, parameters: int) -> None:
    """He et al., 2016, table 6: 0.27 M, 0.46 M and 0.85 M for 20, 32 and 56 layers."""
    space = ResNet(cells_per_stage=depth)
    assert space.cost(RESNET).parameters == parameters
    layers = [one for one in space.network(RESNET).modules() if isinstance(one, nn.Conv2d | nn.Linear)]
    assert len(layers) == 6 * depth + 2


def test_multiply_adds() -> None:
    assert round(ResNet().cost(RESNET).multiply_adds / 1e6, 2) == 40.55


def test_shortcuts_have_no_weights() -> None:
    """Option A of the paper: every second pixel, and zeros for the new channels."""
    torch.manual_seed(0)
    block = ResNet(channels=2, cells_per_stage=1).network(RESNET).body[1].eval()
    nn.init.zeros_(block.second.weight)
    x = torch.randn(3, 2, 8, 8)
    y = block(x)
    assert y.shape == (3, 4, 4, 4)
    assert torch.equal(y[:, :2], F.relu(x[:, :, ::2, ::2]))
    assert not y[:, 2:].any()


def test_there_is_nothing_to_search() -> None:
    with pytest.raises(UserError, match=r"the space 'resnet' has one architecture, so there is nothing to search"):
        ResNet().supernet()


def test_the_command_trains_it_and_tells_its_cost(archgrad: Any) -> None:
    assert '"parameters": 269722' in archgrad.run("cost", "resnet", "--json")
    small = ["--channels", 2, "--cells", 1, "--epochs", 1, "--limit", 60, "--batch-size", 20, "--out", "run"]
    archgrad.run("train", "resnet", *small)
    model = ag.Model.load("run")
    assert (model.space, model.genotype) == (ResNet(channels=2, cells_per_stage=1), RESNET)
