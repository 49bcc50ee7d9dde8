from __future__ import annotations

import itertools

import pytest
import torch
from seeded import randn
from torch import Tensor

from archgrad.bilevel.descent import Descent

Tensors = dict[str, Tensor]
SETTINGS = [
    {"momentum": momentum, "weight_decay": decay, "nesterov": nesterov}
    for momentum, decay, nesterov in itertools.product((0.0, 0.9), (0.0, 0.03), (False, True))
    if momentum or not nesterov
]
every_setting = pytest.mark.parametrize(
    "settings", SETTINGS, ids=lambda s: f"{s['momentum']}-{s['weight_decay']}{'-nesterov' * s['nesterov']}"
)


def vector(seed: int) -> Tensors:
    return {"x": randn(2, 3, seed=seed), "y": randn(seed=seed + 1)}


@every_setting
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
def test_a_descent_takes_the_steps_of_pytorch(settings: dict[str, float], dtype: torch.dtype) -> None:
    weights = {name: value.to(dtype) for name, value in vector(0).items()}
    parameters = {name: value.clone().requires_grad_() for name, value in weights.items()}
    optimizer = torch.optim.SGD(parameters.values(), lr=0.1, **settings)
    descent = Descent(0.1, **settings)
    for number in range(5):
        gradient = {name: value.to(dtype) for name, value in vector(10 * number + 5).items()}
        for name, parameter in parameters.items():
            parameter.grad = gradient[name].clone()
        optimizer.step()
        weights, descent = descent.step(weights, gradient)
        for name, parameter in parameters.items():
            torch.testing.assert_close(weights[name], parameter.detach())
            if settings["momentum"]:
                torch.testing.assert_close(descent.velocity[name], optimizer.state[parameter]["momentum_buffer"])


@every_setting
def test_a_step_changes_nothing_in_place(settings: dict[str, float]) -> None:
    weights, gradient, velocity = vector(0), vector(2), vector(4)
    descent = Descent(0.1, velocity=velocity, **settings)
    after, later = descent.step(weights, gradient)
    assert descent.velocity is velocity
    assert (later.lr, later.momentum, later.weight_decay, later.nesterov) == (0.1, *settings.values())
    for before, seed in ((weights, 0), (gradient, 2), (velocity, 4)):
        assert all(torch.equal(value, vector(seed)[name]) for name, value in before.items())
    assert not any(torch.equal(after[name], value) for name, value in weights.items())


@every_setting
@pytest.mark.parametrize("moving", [False, True], ids=["first_step", "moving"])
def test_pulling_back_is_the_transpose_of_a_step(settings: dict[str, float], moving: bool) -> None:
    weights, gradient = ({name: value.requires_grad_() for name, value in vector(seed).items()} for seed in (0, 2))
    velocity = {name: value.requires_grad_() for name, value in vector(4).items()} if moving else None
    of_weights, of_velocity = vector(6), vector(8)
    after, later = Descent(0.1, velocity=velocity, **settings).step(weights, gradient)
    loss = sum((after[n] * of_weights[n]).sum() + (later.velocity[n] * of_velocity[n]).sum() for n in weights)
    inputs = [*gradient.values(), *weights.values(), *(velocity or {}).values()]
    expected = torch.autograd.grad(loss, inputs, allow_unused=True, materialize_grads=True)
    back = Descent(0.1, velocity=velocity, **settings).pull_back(weights, gradient, of_weights, of_velocity)
    actual = [*back.gradient.values(), *back.weights.values(), *(back.state.values() if moving else ())]
    for x, y in zip(actual, expected, strict=True):
        torch.testing.assert_close(x, y)


@every_setting
def test_nothing_arriving_at_the_velocity_is_the_same_as_zero(settings: dict[str, float]) -> None:
    descent, of_weights = Descent(0.1, **settings), vector(0)
    zeros = {name: torch.zeros_like(value) for name, value in of_weights.items()}
    at = vector(2), vector(4), of_weights
    for short, long in zip(descent.pull_back(*at), descent.pull_back(*at, zeros), strict=True):
        assert all(torch.equal(value, long[name]) for name, value in short.items())
