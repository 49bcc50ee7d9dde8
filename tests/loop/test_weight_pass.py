"""The gradient of a batch in parts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

import archgrad as ag
from archgrad.config.resolve import resolve
from archgrad.data import Batch
from archgrad.distributed import processes as processes_module
from archgrad.errors import UserError
from archgrad.loop import checks
from archgrad.loop.experiment import Experiment
from archgrad.loop.steps import pass_in_parts
from archgrad.relaxations import Relaxed
from archgrad.workflows import Training
from tests.workflows.small import CELL, TINY, trained


@pytest.fixture
def made() -> Iterator[Experiment]:
    torch.set_default_dtype(torch.float64)
    data = ag.data.digits(limit=100)
    config = Training.of("nasbench201", CELL, data, **{**TINY, "limit": None, "batch_size": 7}).config
    yield Experiment.of(resolve(config), data)
    torch.set_default_dtype(torch.float32)


def test_the_gradient_is_the_weighted_sum_of_the_parts(made: Experiment) -> None:
    """∂L1 = Σ Bᵢ/B · ∂L1(batch i): of 7 images in 3 parts, none has only one."""
    torch.manual_seed(0)
    state = made.initial_state()
    batch, losses, relaxed = made.weight_loader.batch(0), made.stepper(state).losses, Relaxed({}, None)
    wanted: dict[str, Any] = {}
    for rows in (slice(0, 3), slice(3, 5), slice(5, 7)):
        part = Batch(batch.inputs[rows], batch.targets[rows])
        loss, _ = losses.inner(state.weights, relaxed, part, state)
        found = torch.autograd.grad(loss, list(state.weights.values()))
        for name, gradient in zip(state.weights, found, strict=True):
            wanted[name] = wanted.get(name, 0.0) + gradient * len(part.targets) / 7
    passed = pass_in_parts(losses, state, relaxed, batch, 3)
    assert passed.outputs.shape == (7, 10)
    for name, weight in state.weights.items():
        assert weight.grad is not None
        torch.testing.assert_close(weight.grad, wanted[name], rtol=0, atol=1e-13)


def test_parts_of_one_image() -> None:
    with pytest.raises(UserError, match=r"weights\.accumulate is 4, but a batch has 7 images; give at most 3, so that"):
        trained(batch_size=7, settings={"weights.accumulate": 4})


def test_several_processes_divide_a_batch_already(monkeypatch: pytest.MonkeyPatch) -> None:
    class Two:
        rank, size = 0, 2

    assert checks.processes is processes_module.processes
    monkeypatch.setattr(checks, "processes", Two)
    with pytest.raises(UserError, match=r"weights\.accumulate divides a batch in one process, but several processes"):
        trained(settings={"weights.accumulate": 2})
