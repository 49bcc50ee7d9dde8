"""Whether mirrored images keep their meaning, by a network that tells left from right."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from archgrad.data import ImageData
from archgrad.tasks import Classification, Regression
from archgrad.workflows.mirrored import mirror_statistic


def brighter_on_the_left() -> Any:
    """A model whose class 1 is a bright left half."""
    network = nn.Sequential(nn.Flatten(), nn.Linear(16, 2, bias=False))
    sides = torch.tensor([1.0, 1.0, -1.0, -1.0]).repeat(4) / 500
    with torch.no_grad():
        network[1].weight.copy_(torch.stack([-sides, sides]))
    return SimpleNamespace(network=network, preprocessing=SimpleNamespace(normalization=lambda images: images.float()))


def noise(count: int) -> torch.Tensor:
    return torch.randint(256, (count, 1, 4, 4), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def test_it_is_the_paired_statistic_of_log_probabilities() -> None:
    images, model = noise(50), brighter_on_the_left()
    data = ImageData("noise", images, torch.arange(50) % 2, ("0", "1"))
    lean = (images[..., :2].double().sum((1, 2, 3)) - images[..., 2:].double().sum((1, 2, 3))) / 250
    sign = data.targets * 2.0 - 1
    differences = torch.log(torch.sigmoid(sign * lean)) - torch.log(torch.sigmoid(-sign * lean))
    expected = float(differences.mean() / differences.std() * 50**0.5)
    assert mirror_statistic(model, data, Classification()) == pytest.approx(expected, rel=1e-4)


def test_sides_that_matter_are_told_from_sides_that_do_not() -> None:
    images = noise(400)
    lean = images[..., :2].float().sum((1, 2, 3)) > images[..., 2:].float().sum((1, 2, 3))
    model = brighter_on_the_left()
    assert mirror_statistic(model, ImageData("sides", images, lean.long(), ("0", "1")), Classification()) > 10
    any_side = ImageData("any", images, torch.arange(400) % 2, ("0", "1"))
    assert abs(mirror_statistic(model, any_side, Classification())) < 3
    same = ImageData("same", torch.zeros_like(images), torch.arange(400) % 2, ("0", "1"))
    assert mirror_statistic(model, same, Classification()) == 0


def test_any_loss_tells() -> None:
    """A regression whose target is how much brighter the left half is."""
    images, model = noise(200), brighter_on_the_left()
    model.network = nn.Sequential(model.network, nn.Linear(2, 1, bias=False))
    with torch.no_grad():
        model.network[1].weight.copy_(torch.tensor([[-1.0, 1.0]]))
    lean = (images[..., :2].float().sum((1, 2, 3)) - images[..., 2:].float().sum((1, 2, 3))) / 250
    assert mirror_statistic(model, ImageData("lean", images, lean, ()), Regression()) > 6
    assert abs(mirror_statistic(model, ImageData("any", images, lean.roll(1), ()), Regression())) < 3
