"""What iDARTS proves about its series, and how it relates to the other estimates."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from seeded import randn
from torch import Tensor

from archgrad.bilevel.problem import BilevelProblem
from archgrad.hypergradients import (
    ExactImplicit,
    Hypergradient,
    Neumann,
    TruncatedReverse,
    Unrolled,
)

Tensors = dict[str, Tensor]
SPECTRUM = torch.tensor([0.5, 1.0, 2.0, 3.0, 4.0], dtype=torch.float64)
MU, GAMMA = 0.5, 0.25


B, TARGET = randn(5, 3, seed=0), randn(5, seed=1)


def diagonal(w: Tensors, a: Tensors, batch: object) -> Tensor:
    return 0.5 * (SPECTRUM * w["w"].square()).sum() - w["w"] @ (B @ a["a"])


def outer(w: Tensors, a: Tensors, batch: object) -> Tensor:
    return 0.5 * (w["w"] - TARGET).square().sum() + (w["w"].sum() * a["a"]).sin().sum()


def curved(w: Tensors, a: Tensors, batch: object) -> Tensor:
    """Strongly convex, but not quadratic."""
    return diagonal(w, a, batch) + (w["w"] - a["a"].mean()).cosh().log().sum()


def stationary(alpha: Tensor) -> Tensor:
    """Return the minimum of ``curved`` by Newton's method."""
    w = torch.zeros(5, dtype=torch.float64)
    for _ in range(30):
        at = w.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(curved({"w": at}, {"a": alpha}, None), at)
        hessian = torch.autograd.functional.hessian(lambda v: curved({"w": v}, {"a": alpha}, None), w)
        w = w - torch.linalg.solve(hessian, gradient)
    assert gradient.norm() < 1e-13
    return w


def estimate(member: Hypergradient, loss: Any, weights: Tensor, alpha: Tensor) -> Tensor:
    return member(BilevelProblem(loss, outer), {"w": weights}, {"a": alpha}, None, None)["a"]


def errors(count: int) -> list[float]:
    alpha = randn(3, seed=2)
    best = (B @ alpha) / SPECTRUM
    exact = estimate(ExactImplicit(), diagonal, best, alpha)
    return [(estimate(Neumann(terms, GAMMA), diagonal, best, alpha) - exact).norm().item() for terms in range(count)]


def test_the_error_of_the_series_stays_below_theorem_1() -> None:
    alpha = randn(3, seed=2)
    at = ((B @ alpha) / SPECTRUM).requires_grad_()
    (of_weights,) = torch.autograd.grad(outer({"w": at}, {"a": alpha}, None), at)
    bound = torch.linalg.matrix_norm(B, 2).item() * of_weights.norm().item() / MU
    found = errors(21)
    assert all(value <= bound * (1 - GAMMA * MU) ** (terms + 1) for terms, value in enumerate(found))
    assert all(later < earlier for earlier, later in itertools.pairwise(found))


def test_too_large_a_rate_diverges_and_the_automatic_one_does_not() -> None:
    alpha = randn(3, seed=2)
    best = (B @ alpha) / SPECTRUM
    exact = estimate(ExactImplicit(), diagonal, best, alpha)
    wild = [(estimate(Neumann(terms, 0.6), diagonal, best, alpha) - exact).norm() for terms in (5, 10, 20, 40)]
    assert all(later > earlier for earlier, later in itertools.pairwise(wild))
    tame = [(estimate(Neumann(terms, "auto"), diagonal, best, alpha) - exact).norm() for terms in (5, 10, 20, 40)]
    assert all(later < earlier for earlier, later in itertools.pairwise(tame))


@pytest.mark.parametrize("terms", [0, 1, 3])
def test_the_series_is_truncated_reverse_mode_at_converged_weights(terms: int) -> None:
    """Corollary 2 of iDARTS: K terms are the last K + 1 steps, whichever steps came before."""
    alpha = randn(3, seed=3)
    best = stationary(alpha)
    expected = estimate(Neumann(terms, 0.1), curved, best, alpha)
    for member in (TruncatedReverse(6, terms + 1, lr=0.1), TruncatedReverse(terms + 1, terms + 1, lr=0.1)):
        torch.testing.assert_close(estimate(member, curved, best, alpha), expected, rtol=1e-11, atol=1e-12)
    elsewhere = best + 0.1 * randn(5, seed=4)
    apart = estimate(TruncatedReverse(6, terms + 1, lr=0.1), curved, elsewhere, alpha)
    assert (apart - estimate(Neumann(terms, 0.1), curved, elsewhere, alpha)).norm() > 1e-4


def brute(weights: Tensor, alpha: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return ∂L2/∂α, ∂L2/∂w, ∂L1/∂w and the matrix M of α by w, whole."""
    of_weights, of_alpha = torch.autograd.functional.jacobian(
        lambda w, a: outer({"w": w}, {"a": a}, None), (weights, alpha)
    )
    inner = lambda w, a: curved({"w": w}, {"a": a}, None)  # noqa: E731
    gradient = torch.autograd.functional.jacobian(inner, (weights, alpha))[0]
    mixed = torch.autograd.functional.hessian(inner, (weights, alpha))[1][0]
    return of_alpha, of_weights, gradient, mixed


def test_no_terms_anywhere_are_the_formula_at_the_current_weights() -> None:
    weights, alpha = randn(5, seed=5), randn(3, seed=6)
    of_alpha, of_weights, gradient, mixed = brute(weights, alpha)
    assert gradient.norm() > 1
    expected = of_alpha - 0.1 * mixed @ of_weights
    torch.testing.assert_close(estimate(Neumann(0, 0.1), curved, weights, alpha), expected)


def test_one_unrolled_step_takes_the_mixed_derivative_before_it_and_the_rest_after_it() -> None:
    weights, alpha = randn(5, seed=5), randn(3, seed=6)
    *_, gradient, mixed = brute(weights, alpha)
    of_alpha, of_weights, *_ = brute(weights - 0.1 * gradient, alpha)
    expected = of_alpha - 0.1 * mixed @ of_weights
    torch.testing.assert_close(estimate(Unrolled(lr=0.1), curved, weights, alpha), expected)
