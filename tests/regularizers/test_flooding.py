from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tiny_space import Tiny
from torch import Tensor

import archgrad as ag
from archgrad.regularizers import Flooding, WeightStep

DATA = ag.data.digits(limit=64)


def loss(weights: dict[str, Tensor], mixture: dict[str, Tensor]) -> Tensor:
    return (weights["u"] * 2).square().sum() + weights["v"].cos().sum()


@pytest.mark.parametrize("distance", [-1.0, 0.0, 2.5])
def test_the_whole_gradient_is_that_of_the_flooded_loss(distance: float) -> None:
    stream = torch.Generator().manual_seed(3)
    weights = {name: torch.randn(3, generator=stream, dtype=torch.float64).requires_grad_() for name in "uv"}
    value = loss(weights, {})
    level = value.item() + distance
    level = max(level, 0.0)
    wanted = torch.autograd.grad((value - level).abs() + level, list(weights.values()), retain_graph=True)
    found = dict(zip(weights, torch.autograd.grad(value, list(weights.values())), strict=True))
    for name, slope in found.items():
        weights[name].grad = slope
    added = Flooding(level).weight_gradient(WeightStep(loss, (), weights, value.detach(), found, {}, None, 0.5, 0))
    for (name, slope), one in zip(found.items(), wanted, strict=True):
        torch.testing.assert_close(slope + added[name], one)


def search(level: float | None, recipe: str = "darts") -> ag.SearchResult:
    terms = () if level is None else (Flooding(level),)
    method = replace(ag.recipes.named(recipe, "nasbench201"), regularizers=terms)
    space = Tiny(channels=2, cells_per_stage=1)
    return ag.search(space, method, DATA, epochs=2, batch_size=16)


@pytest.mark.parametrize("recipe", ["darts", "gdas"])
def test_a_level_below_the_loss_changes_no_bit(recipe: str) -> None:
    plain, low = search(None, recipe), search(0.0, recipe)
    assert torch.equal(plain.alpha["cell"], low.alpha["cell"])
    assert plain.history[-1]["train_loss"] == low.history[-1]["train_loss"]


def test_below_the_level_the_loss_rises() -> None:
    losses = [search(level).history[-1]["train_loss"] for level in (None, 50.0)]
    assert losses[1] > losses[0]
