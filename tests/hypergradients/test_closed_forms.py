"""Problems whose hypergradient is known."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from seeded import randn, symmetric
from torch import Tensor

from archgrad.bilevel.problem import BilevelProblem
from archgrad.hypergradients import (
    T1T2,
    Amended,
    ConjugateGradient,
    ExactImplicit,
    FirstOrder,
    Hypergradient,
    Neumann,
    TruncatedReverse,
    Unrolled,
)

Tensors = dict[str, Tensor]
KINDS = ("exact", "finite", "forward")
every_kind = pytest.mark.parametrize("kind", KINDS)


def toy(w: Tensors, a: Tensors, x: float) -> Tensor:
    """The loss of Amended-DARTS, A.1."""
    return (w["w"] * x - a["a"]).square().sum()


def of_alpha(member: Hypergradient) -> float:
    """Return the estimate for the toy at w* = α, as a multiple of α."""
    alpha = torch.tensor([3.0, -0.5], dtype=torch.float64)
    gradient = member(BilevelProblem(toy, toy), {"w": alpha.clone()}, {"a": alpha}, 1.0, 2.0)["a"] / alpha
    assert gradient[0].item() == pytest.approx(gradient[1].item(), rel=1e-9, abs=1e-9)
    return gradient[0].item()


@every_kind
@pytest.mark.parametrize(
    "member",
    [
        ExactImplicit(),
        ConjugateGradient(1),
        Neumann(60, 0.2),
        Neumann(0, 0.5),
        Neumann(0, "auto"),
        TruncatedReverse(60, 60, lr=0.2),
        TruncatedReverse(80, 60, lr=0.2),
        Unrolled(lr=0.5),
        Amended(0.25),
    ],
    ids=str,
)
def test_the_toy_of_amended_darts_has_the_hypergradient_two_alpha(member: Any, kind: str) -> None:
    """In one dimension η = 1/H² makes the amending term the truth, and a step of γ = 1/H reaches w*."""
    assert of_alpha(dataclasses.replace(member, products=kind)) == pytest.approx(2.0, rel=1e-9)


@pytest.mark.parametrize(
    ("member", "value"),
    [
        (FirstOrder(), -2.0),
        (T1T2(), 6.0),
        (Amended(0.1), -0.4),
        (Amended(1.0), 14.0),
        (Unrolled(lr=0.1), -1.2),
        (Neumann(0, 0.1), -1.2),
        (Neumann(2, 0.1), -2 + 4 * (1 - 0.8**3)),
        (TruncatedReverse(3, 3, lr=0.1), -2 + 4 * (1 - 0.8**3)),
        (TruncatedReverse(9, 3, lr=0.1), -2 + 4 * (1 - 0.8**3)),
        (ConjugateGradient(1, damping=2.0), 0.0),
    ],
    ids=str,
)
def test_the_toy_shows_by_how_much_each_approximation_errs(member: Hypergradient, value: float) -> None:
    assert of_alpha(member) == pytest.approx(value, rel=1e-12, abs=1e-12)


class Quadratic:
    """inner = ½wᵀHw − (Bα + c)ᵀw and outer = ½‖Cw − d‖² + αᵀDα, with the weights in two pieces."""

    def __init__(self, seed: int) -> None:
        self.H = symmetric([0.5, 0.8, 1.0, 2.0, 3.0, 4.0], seed)
        self.B, self.c = randn(6, 4, seed=seed + 100), randn(6, seed=seed + 200)
        self.C, self.d = randn(5, 6, seed=seed + 300), randn(5, seed=seed + 400)
        self.D, self.alpha = randn(4, 4, seed=seed + 500), {"a": randn(2, 2, seed=seed + 600)}
        self.problem = BilevelProblem(self.inner, self.outer)

    def inner(self, w: Tensors, a: Tensors, batch: object) -> Tensor:
        flat = torch.cat([w["x"].flatten(), w["y"]])
        return 0.5 * flat @ self.H @ flat - (self.B @ a["a"].flatten() + self.c) @ flat

    def outer(self, w: Tensors, a: Tensors, batch: object) -> Tensor:
        flat, alpha = torch.cat([w["x"].flatten(), w["y"]]), a["a"].flatten()
        return 0.5 * (self.C @ flat - self.d).square().sum() + alpha @ self.D @ alpha

    def best(self) -> Tensor:
        return torch.linalg.solve(self.H, self.B @ self.alpha["a"].flatten() + self.c)

    def weights(self, flat: Tensor) -> Tensors:
        return {"x": flat[:4].view(2, 2), "y": flat[4:]}

    def exact(self) -> Tensor:
        alpha, of_weights = self.alpha["a"].flatten(), self.C.T @ (self.C @ self.best() - self.d)
        total = (self.D + self.D.T) @ alpha + self.B.T @ torch.linalg.solve(self.H, of_weights)
        return total.view(2, 2)


def error(actual: Tensor, expected: Tensor) -> float:
    return ((actual - expected).norm() / expected.norm()).item()


@every_kind
@pytest.mark.parametrize("seed", range(4))
def test_quadratic_problems_are_solved_exactly(seed: int, kind: Any) -> None:
    quadratic = Quadratic(seed)
    exact = [ExactImplicit(products=kind), ConjugateGradient(6, products=kind), Neumann(300, 0.25, products=kind)]
    for member in exact:
        estimate = member(quadratic.problem, quadratic.weights(quadratic.best()), quadratic.alpha, None, None)
        assert error(estimate["a"], quadratic.exact()) < 1e-6


def ridge_inner(w: Tensors, a: Tensors, data: tuple[Tensor, Tensor]) -> Tensor:
    x, y = data
    return (x @ w["w"] - y).square().sum() + (a["log_lambda"].exp() * w["w"].square()).sum()


def ridge_outer(w: Tensors, a: Tensors, data: tuple[Tensor, Tensor]) -> Tensor:
    x, y = data
    return (x @ w["w"] - y).square().mean()


def ridge_weights(log_lambda: Tensor, data: tuple[Tensor, Tensor]) -> Tensor:
    x, y = data
    return torch.linalg.solve(x.T @ x + torch.diag(log_lambda.exp().expand(5)), x.T @ y)


@pytest.mark.parametrize("lambdas", [1, 5], ids=["one_lambda", "one_for_each_feature"])
@pytest.mark.parametrize("seed", range(3))
def test_ridge_regression_tunes_its_penalty_exactly(seed: int, lambdas: int) -> None:
    """Against autograd through the solution in closed form; there is nothing about architectures here."""
    training = randn(20, 5, seed=seed), randn(20, seed=seed + 1)
    validation = randn(30, 5, seed=seed + 2), randn(30, seed=seed + 3)
    log_lambda = randn(lambdas, seed=seed + 4).requires_grad_()
    best = ridge_weights(log_lambda, training)
    (expected,) = torch.autograd.grad(ridge_outer({"w": best}, {}, validation), log_lambda)
    x = training[0]
    curvature = 2 * (torch.linalg.eigvalsh(x.T @ x)[-1] + log_lambda.exp().max()).item()
    point = {"w": best.detach()}, {"log_lambda": log_lambda.detach()}, training, validation
    problem = BilevelProblem(ridge_inner, ridge_outer)
    members = [
        ExactImplicit(),
        ConjugateGradient(5),
        Neumann(400, 1 / curvature),
        TruncatedReverse(250, 250, lr=1 / curvature),
    ]
    for member in members:
        assert error(member(problem, *point)["log_lambda"], expected) < 1e-6
    assert error(FirstOrder()(problem, *point)["log_lambda"], expected) == 1.0
    for member in (ExactImplicit(products="finite"), ConjugateGradient(5, products="finite")):
        assert error(member(problem, *point)["log_lambda"], expected) < 1e-5
