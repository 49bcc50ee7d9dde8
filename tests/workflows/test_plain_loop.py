"""A training by the loop is the training that anybody would write in PyTorch."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import archgrad as ag
from archgrad.config.resolve import resolve
from archgrad.loop.experiment import Experiment
from archgrad.supernet.cell import set_drop_path
from archgrad.system import random_streams
from archgrad.workflows import Training

EPOCHS, LR = 3, 0.1


@pytest.fixture(autouse=True)
def _double_precision() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def by_hand(setup: Experiment, drop_path: float, parts: int = 1) -> nn.Module:
    """Train as in the code that was published with DARTS."""
    torch.manual_seed(random_streams.seed_of(setup.seed, "global"))
    space: Any = setup.space
    network = space.base.network(space.fixed, **setup.network_shape, auxiliary_head=True)
    optimizer = torch.optim.SGD(network.parameters(), LR, momentum=0.9, weight_decay=3e-4, nesterov=True)
    network.train()
    for epoch in range(EPOCHS):
        optimizer.param_groups[0]["lr"] = LR * (1 + math.cos(math.pi * epoch / EPOCHS)) / 2
        for step in range(setup.steps):
            index = epoch * setup.steps + step
            torch.manual_seed(random_streams.seed_of(setup.seed, "global", index))
            set_drop_path(network, drop_path * epoch / EPOCHS)
            batch = setup.weight_loader.batch(index)
            for images, labels in zip(batch.inputs.tensor_split(parts), batch.targets.tensor_split(parts), strict=True):
                logits, auxiliary = network(images)
                loss = F.cross_entropy(logits, labels) + 0.4 * F.cross_entropy(auxiliary, labels)
                (loss * len(labels) / len(batch.targets)).backward()
            nn.utils.clip_grad_norm_(network.parameters(), 0.7)
            optimizer.step()
            optimizer.zero_grad()
    return network


@pytest.mark.parametrize(
    ("drop_path", "accumulate"), [(0.0, 1), (0.3, 1), (0.0, 3)], ids=["plain", "drop-path", "in three parts"]
)
def test_weights_and_statistics_are_those_of_a_plain_loop(drop_path: float, accumulate: int) -> None:
    settings = {
        "weights.lr": LR, "weights.clip": 0.7, "weights.accumulate": accumulate,
        "supernet.auxiliary_head": 0.4, "supernet.drop_path": drop_path,
    }  # fmt: skip
    options: dict[str, Any] = {"channels": 2, "cells": 3, "epochs": EPOCHS, "batch_size": 20, "settings": settings}
    data = ag.data.digits(limit=60)
    config = Training.of("darts", "darts-v2", data, **options).config
    assert config.weights is not None
    assert config.weights.nesterov
    setup = Experiment.of(resolve(config), data)
    wanted = by_hand(setup, drop_path, accumulate).state_dict()
    found = ag.train("darts", "darts-v2", data, **options).model.network.state_dict()
    assert not any(name.startswith("auxiliary") for name in found)
    for name, value in found.items():
        torch.testing.assert_close(value, wanted[name], rtol=0, atol=1e-12)
