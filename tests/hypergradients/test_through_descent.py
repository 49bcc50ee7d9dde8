"""Unrolled, reverse and truncated reverse mode against autograd through steps of SGD that are written out here."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from seeded import randn
from torch import Tensor

from archgrad.bilevel.descent import Descent
from archgrad.bilevel.problem import BilevelProblem
from archgrad.hypergradients import Batches, Reverse, TruncatedReverse, Unrolled
from tests.bilevel.test_descent import every_setting

Tensors = dict[str, Tensor]
every_member = pytest.mark.parametrize(
    "member", [Unrolled(), TruncatedReverse(1, 1), TruncatedReverse(4, 4), TruncatedReverse(5, 2)], ids=str
)


def inner(w: Tensors, a: Tensors, x: Tensor) -> Tensor:
    """A small network whose hidden units α scales; neither convex nor quadratic."""
    return ((x @ w["first"]).tanh() * a["a"] @ w["second"] - x.sum(1)).square().mean() + (
        w["second"] * a["b"]
    ).cos().sum()


def outer(w: Tensors, a: Tensors, x: Tensor) -> Tensor:
    return ((x @ w["first"]).tanh() * a["a"].exp() @ w["second"]).square().mean() + (a["b"] * w["first"].sum(0)).sum()


WEIGHTS = {"first": randn(3, 4, seed=0), "second": randn(4, seed=1)}
ALPHA = {"a": randn(4, seed=2), "b": randn(4, seed=3)}
VELOCITY = {"first": randn(3, 4, seed=4), "second": randn(4, seed=5)}
OUTER_BATCH = randn(6, 3, seed=6)
LR = 0.1


def detached(vector: Tensors | None) -> Tensors | None:
    return vector and {name: value.detach() for name, value in vector.items()}


def through_autograd(
    batches: list[Tensor], kept: int, velocity: Tensors | None, *, momentum: float, weight_decay: float, nesterov: bool
) -> Tensors:
    alpha = {name: value.clone().requires_grad_() for name, value in ALPHA.items()}
    weights = {name: value.clone().requires_grad_() for name, value in WEIGHTS.items()}
    for number, batch in enumerate(batches):
        if number == len(batches) - kept:
            weights, velocity = ({n: v.detach().requires_grad_() for n, v in weights.items()}, detached(velocity))
        found = torch.autograd.grad(inner(weights, alpha, batch), list(weights.values()), create_graph=True)
        after, moved = {}, {}
        for (name, weight), gradient in zip(weights.items(), found, strict=True):
            gradient = gradient + weight_decay * weight
            moved[name] = gradient if velocity is None else momentum * velocity[name] + gradient
            after[name] = weight - LR * (gradient + momentum * moved[name] if nesterov else moved[name])
        weights, velocity = after, moved
    found = torch.autograd.grad(outer(weights, alpha, OUTER_BATCH), list(alpha.values()))
    return dict(zip(alpha, found, strict=True))


def inner_batches(member: Reverse, different: bool) -> list[Tensor]:
    return [randn(6, 3, seed=10 + number * different) for number in range(member.inner_batches)]


@every_setting
@every_member
@pytest.mark.parametrize("different", [False, True], ids=["one_batch", "batches"])
@pytest.mark.parametrize("velocity", [None, VELOCITY], ids=["at_rest", "moving"])
def test_it_is_autograd_through_the_steps(
    settings: dict[str, Any], member: Reverse, different: bool, velocity: Tensors | None
) -> None:
    batches = inner_batches(member, different)
    expected = through_autograd(batches, member.lengths[1], velocity, **settings)
    actual = member(
        BilevelProblem(inner, outer),
        WEIGHTS,
        ALPHA,
        Batches(batches) if different else batches[0],
        OUTER_BATCH,
        descent=Descent(LR, velocity=velocity, **settings),
    )
    for name, value in expected.items():
        torch.testing.assert_close(actual[name], value, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("velocity", [None, VELOCITY], ids=["at_rest", "moving"])
def test_the_virtual_step_of_nasbench201_has_plain_momentum_though_the_real_one_has_not(
    velocity: Tensors | None,
) -> None:
    """w′ = w − γ·(μv + g + λw), and γ before M, whatever the weights' own steps do."""
    settings: dict[str, Any] = {"momentum": 0.9, "weight_decay": 0.05}
    batches, problem = inner_batches(Unrolled(), different=False), BilevelProblem(inner, outer)
    expected = through_autograd(batches, 1, velocity, nesterov=False, **settings)
    descent = Descent(LR, velocity=velocity, nesterov=True, **settings)
    plain, own = (
        Unrolled(nesterov=nesterov)(problem, WEIGHTS, ALPHA, batches[0], OUTER_BATCH, descent=descent)
        for nesterov in (False, True)
    )
    for name, value in expected.items():
        torch.testing.assert_close(plain[name], value, rtol=1e-9, atol=1e-11)
    assert any(not torch.allclose(own[name], value) for name, value in expected.items())


@every_setting
@pytest.mark.parametrize(("kind", "tolerance"), [("finite", 1e-3), ("forward", 1e-2)])
def test_differences_go_through_the_steps_too(settings: dict[str, Any], kind: Any, tolerance: float) -> None:
    member = TruncatedReverse(3, 3, products=kind)
    batches = inner_batches(member, different=True)
    expected = through_autograd(batches, 3, VELOCITY, **settings)
    descent = Descent(LR, velocity=VELOCITY, **settings)
    actual = member(BilevelProblem(inner, outer), WEIGHTS, ALPHA, Batches(batches), OUTER_BATCH, descent=descent)
    apart = sum((actual[name] - value).norm() for name, value in expected.items())
    assert apart < tolerance * sum(value.norm() for value in expected.values())


def test_its_own_rate_replaces_that_of_the_descent_and_nothing_else() -> None:
    point = BilevelProblem(inner, outer), WEIGHTS, ALPHA, randn(6, 3, seed=10), OUTER_BATCH
    descent = Descent(0.3, 0.9, 0.05, True, VELOCITY)
    expected = TruncatedReverse(3, 3)(*point, descent=dataclasses.replace(descent, lr=LR))
    actual = TruncatedReverse(3, 3, lr=LR)(*point, descent=descent)
    assert all(torch.equal(value, expected[name]) for name, value in actual.items())
