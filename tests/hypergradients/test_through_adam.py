"""Unrolled and reverse mode through steps of Adam and AdamW: against autograd, PyTorch's optimizers and differences."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from seeded import randn
from test_through_descent import ALPHA, WEIGHTS, inner, outer
from torch import Tensor

import archgrad as ag
from archgrad.bilevel.adam_descent import AdamDescent, Moments, moments_of
from archgrad.bilevel.problem import BilevelProblem
from archgrad.hypergradients import Batches, Neumann, Reverse, TruncatedReverse, Unrolled, evaluate_at

Tensors = dict[str, Tensor]
LR, BETAS, EPS = 0.05, (0.8, 0.95), 1e-3
SETTINGS = [{"weight_decay": decay, "decoupled": decoupled} for decay in (0.0, 0.1) for decoupled in (False, True)]
every_setting = pytest.mark.parametrize("settings", SETTINGS, ids=str)
every_member = pytest.mark.parametrize("member", [Unrolled(), TruncatedReverse(3, 3), TruncatedReverse(4, 2)], ids=str)
MOMENTS = {
    "first": Moments(0.1 * randn(3, 4, seed=4), randn(3, 4, seed=5).square(), 7.0),
    "second": Moments(0.1 * randn(4, seed=6), randn(4, seed=7).square(), 3.0),
}
every_start = pytest.mark.parametrize("moments", [{}, MOMENTS, {"first": MOMENTS["first"]}], ids=["0", "moving", "one"])
OUTER_BATCH = randn(6, 3, seed=8)
PROBLEM = BilevelProblem(inner, outer)


def batches_of(member: Reverse) -> list[Tensor]:
    return [randn(6, 3, seed=10 + number) for number in range(member.inner_batches)]


def taken(moments: Any, weights: Tensors, alpha: Tensors, batch: Tensor, weight_decay: float, decoupled: bool) -> Any:
    """Return one step of Adam as its authors write it, as a differentiable function."""
    after, later = {}, {}
    slopes = torch.autograd.grad(inner(weights, alpha, batch), list(weights.values()), create_graph=True)
    for (name, weight), slope in zip(weights.items(), slopes, strict=True):
        m, u, t = moments.get(name, (torch.zeros_like(weight), torch.zeros_like(weight), 0.0))
        g, t = slope if decoupled else slope + weight_decay * weight, t + 1
        m, u = BETAS[0] * m + (1 - BETAS[0]) * g, BETAS[1] * u + (1 - BETAS[1]) * g**2
        step = m / (1 - BETAS[0] ** t) / ((u / (1 - BETAS[1] ** t)) ** 0.5 + EPS)
        after[name] = weight - LR * step - (LR * weight_decay * weight if decoupled else 0)
        later[name] = (m, u, t)
    return after, later


def unrolled(alpha: Tensors, batches: list[Tensor], kept: int, moments: Any, settings: Any) -> Tensor:
    weights = {name: value.clone().requires_grad_() for name, value in WEIGHTS.items()}
    for number, batch in enumerate(batches):
        if number == len(batches) - kept:
            weights = {name: value.detach().requires_grad_() for name, value in weights.items()}
            moments = {name: (m.detach(), u.detach(), t) for name, (m, u, t) in moments.items()}
        weights, moments = taken(moments, weights, alpha, batch, **settings)
    return outer(weights, alpha, OUTER_BATCH)


def estimate(member: Reverse, moments: Any, settings: Any) -> Tensors:
    descent = AdamDescent(LR, BETAS, EPS, moments=moments, **settings)
    return member(PROBLEM, WEIGHTS, ALPHA, Batches(batches_of(member)), OUTER_BATCH, descent=descent)


@every_setting
@every_member
@every_start
def test_it_is_autograd_through_the_steps(settings: Any, member: Reverse, moments: Any) -> None:
    alpha = {name: value.clone().requires_grad_() for name, value in ALPHA.items()}
    loss = unrolled(alpha, batches_of(member), member.lengths[1], moments, settings)
    actual = estimate(member, moments, settings)
    for name, expected in zip(alpha, torch.autograd.grad(loss, list(alpha.values())), strict=True):
        torch.testing.assert_close(actual[name], expected, rtol=1e-9, atol=1e-11)


@every_setting
def test_it_is_the_slope_of_the_loss_after_the_steps(settings: Any) -> None:
    member, step = TruncatedReverse(3, 3), 1e-6
    direction = {name: randn(4, seed=20 + len(name)) for name in ALPHA}
    ahead, behind = (
        unrolled({n: v + sign * step * direction[n] for n, v in ALPHA.items()}, batches_of(member), 3, {}, settings)
        for sign in (1, -1)
    )
    found = estimate(member, {}, settings)
    slope = sum((found[name] * direction[name]).sum() for name in ALPHA)
    torch.testing.assert_close(slope, ((ahead - behind) / (2 * step)).detach(), rtol=1e-6, atol=1e-8)


@every_setting
@pytest.mark.parametrize(("kind", "tolerance"), [("finite", 1e-3), ("forward", 1e-2)])
def test_differences_go_through_the_steps_too(settings: Any, kind: Any, tolerance: float) -> None:
    exact, other = (estimate(TruncatedReverse(3, 3, products=one), MOMENTS, settings) for one in ("exact", kind))
    apart = sum((other[name] - value).norm() for name, value in exact.items())
    assert apart < tolerance * sum(value.norm() for value in exact.values())


@every_setting
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_a_descent_takes_the_steps_of_pytorch(settings: Any, dtype: torch.dtype) -> None:
    weights = {name: value.to(dtype) for name, value in WEIGHTS.items()}
    parameters = {name: value.clone().requires_grad_() for name, value in weights.items()}
    kind = torch.optim.AdamW if settings["decoupled"] else torch.optim.Adam
    optimizer = kind(parameters.values(), LR, BETAS, EPS, settings["weight_decay"])
    descent = AdamDescent(LR, BETAS, EPS, **settings)
    for number in range(5):
        gradient = {name: randn(*value.shape, seed=30 + number).to(dtype) for name, value in weights.items()}
        for name, parameter in parameters.items():
            parameter.grad = gradient[name].clone()
        optimizer.step()
        weights, descent = descent.step(weights, gradient)
        for name, moments in moments_of(optimizer, parameters).items():
            torch.testing.assert_close(weights[name], parameters[name].detach())
            torch.testing.assert_close(descent.moments[name], moments)


def test_a_weight_without_any_gradient_has_no_part_in_the_estimate() -> None:
    """Autograd through the root of zero would give NaN, and 1/ε would drown all others in a difference."""
    weights = WEIGHTS | {"unused": torch.ones(2, dtype=torch.float64)}
    for kind in ("exact", "forward"):
        member = TruncatedReverse(2, 2, products=kind)
        at = ALPHA, Batches(batches_of(member)), OUTER_BATCH
        with_it, without = (
            member(PROBLEM, one, *at, descent=AdamDescent(LR, BETAS, EPS)) for one in (weights, WEIGHTS)
        )
        for name, value in without.items():
            torch.testing.assert_close(with_it[name], value, rtol=1e-9, atol=1e-11)


def test_its_rate_is_not_that_of_a_series() -> None:
    descent = AdamDescent(LR)
    with (
        evaluate_at(PROBLEM, WEIGHTS, ALPHA, randn(6, 3, seed=9), OUTER_BATCH, descent) as point,
        pytest.raises(ag.UserError, match="the learning rate of SGD on the weights"),
    ):
        Neumann().estimate_once(point)
