"""The geometries of the simplex against numerical optimization and an independent projection."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from seeded import randn
from torch import Tensor

from archgrad.arch_optimizers import GEOMETRIES, Entropy, Euclidean, Geometry

every_geometry = pytest.mark.parametrize("geometry", GEOMETRIES.values(), ids=GEOMETRIES)
every_seed = pytest.mark.parametrize("seed", range(5))
FLOATS = {"rtol": 1e-12, "atol": 1e-14}


def simplex(*shape: int, seed: int) -> Tensor:
    return (2 * randn(*shape, seed=seed)).softmax(-1)


def everything(like: Tensor) -> Tensor:
    return torch.ones_like(like, dtype=torch.bool)


def projected_by_bisection(point: Tensor) -> Tensor:
    """Find the τ at which max(0, y − τ) sums to 1, one row at a time."""
    rows = []
    for row in point.flatten(0, -2):
        low, high = row.min().item() - 1, row.max().item()
        for _ in range(200):
            middle = (low + high) / 2
            if (row - middle).clamp_min(0).sum() > 1:
                low = middle
            else:
                high = middle
        rows.append((row - high).clamp_min(0))
    return torch.stack(rows).view(point.shape)


def proximal_by_optimization(theta: Tensor, slope: Tensor) -> Tensor:
    """Minimize ⟨s, u⟩ + Σ u·log(u/θ) over the simplex, which is Eq. 5 of GAEA without its solution."""
    weights, steep = theta.numpy(), slope.numpy()

    def objective(u: np.ndarray) -> float:
        return float(steep @ u + (u * np.log(u / weights)).sum())

    found = minimize(
        objective,
        np.full_like(weights, 1 / len(weights)),
        jac=lambda u: steep + np.log(u / weights) + 1,
        method="SLSQP",
        bounds=[(1e-12, 1)] * len(weights),
        constraints={"type": "eq", "fun": lambda u: u.sum() - 1, "jac": np.ones_like},
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    return torch.from_numpy(found.x)


POTENTIALS = {
    Entropy(): lambda theta: torch.xlogy(theta, theta).sum(-1),
    Euclidean(): lambda theta: theta.square().sum(-1) / 2,
}


@every_geometry
@every_seed
def test_gradient_and_divergence_are_those_of_the_potential(geometry: Geometry, seed: int) -> None:
    """∇φ by autograd, and D(u‖v) = φ(u) − φ(v) − ⟨∇φ(v), u − v⟩ as Bregman defined it."""
    potential, u, v = POTENTIALS[geometry], simplex(2, 3, 5, seed=seed), simplex(2, 3, 5, seed=100 + seed)
    at = v.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(potential(at).sum(), at)
    torch.testing.assert_close(geometry.gradient(v), gradient, **FLOATS)
    expected = potential(u) - potential(v) - (gradient * (u - v)).sum(-1)
    torch.testing.assert_close(geometry.divergence(u, v), expected, **FLOATS)


def test_nothing_is_lost_at_zero() -> None:
    decided, open_ = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.25, 0.75]])
    assert Entropy().divergence(decided, open_).item() == pytest.approx(math.log(4))
    assert Entropy().divergence(decided, decided).tolist() == [0.0]
    assert Entropy().divergence(open_, decided).tolist() == [math.inf]
    assert Euclidean().divergence(open_, decided).item() == pytest.approx(0.75**2)


@every_seed
@pytest.mark.parametrize("size", [0.1, 1.0, 5.0])
def test_the_entropic_step_solves_the_proximal_problem(seed: int, size: float) -> None:
    theta, slope = simplex(6, seed=seed), size * randn(6, seed=100 + seed)
    found = Entropy().step(theta[None], slope[None], everything(theta))[0]
    torch.testing.assert_close(found, proximal_by_optimization(theta, slope), rtol=0, atol=2e-6)
    closed = theta * (-slope).exp()
    torch.testing.assert_close(found, closed / closed.sum(), **FLOATS)


@every_seed
@pytest.mark.parametrize("size", [0.01, 0.3, 30.0])
def test_the_euclidean_step_is_the_projection(seed: int, size: float) -> None:
    theta, slope = simplex(2, 7, 9, seed=seed), size * randn(2, 7, 9, seed=100 + seed)
    found = Euclidean().step(theta, slope, everything(theta))
    torch.testing.assert_close(found, projected_by_bisection(theta - slope), rtol=0, atol=1e-12)


@every_geometry
@every_seed
def test_a_step_on_part_of_a_row_is_the_step_of_a_shorter_row(geometry: Geometry, seed: int) -> None:
    short, slope = simplex(3, 4, seed=seed), randn(3, 7, seed=100 + seed)
    place = torch.tensor([5, 0, 2, 3])
    theta = torch.zeros(3, 7, dtype=torch.float64).index_copy(1, place, short)
    support = torch.zeros(3, 7, dtype=torch.bool).index_fill(1, place, True)
    long = geometry.step(theta, slope, support)
    assert (long[~support] == 0).all()
    torch.testing.assert_close(long[:, place], geometry.step(short, slope[:, place], everything(short)), **FLOATS)


@every_geometry
@pytest.mark.parametrize("size", [1e3, 1e30, 1e300, 1.7e308, math.inf])
def test_slopes_beyond_all_measure_choose_the_lowest(geometry: Geometry, size: float) -> None:
    theta = simplex(2, 4, seed=0).float()
    slope = torch.tensor([[size, -size, 0.0, size], [1.0, size, size, size]], dtype=torch.float64)
    found = geometry.step(theta, slope, everything(theta))
    assert found.dtype == torch.float32
    assert found.tolist() == [[0.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]]


@every_geometry
def test_where_the_lowest_slope_is_shared_the_others_do_not_matter(geometry: Geometry) -> None:
    theta = torch.tensor([[0.2, 0.3, 0.5]], dtype=torch.float64)
    found = geometry.step(theta, torch.tensor([[1e200, 1e200, 1.5e200]], dtype=torch.float64), everything(theta))
    expected = [[0.4, 0.6, 0.0]] if geometry == Entropy() else [[0.45, 0.55, 0.0]]
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64))


def test_entropy_never_leaves_zero_and_euclid_does() -> None:
    theta = torch.tensor([[0.5, 0.5, 0.0]], dtype=torch.float64)
    slope = torch.tensor([[1e30, 1e30, -1e30]], dtype=torch.float64)
    assert Entropy().step(theta, slope, everything(theta)).tolist() == [[0.5, 0.5, 0.0]]
    assert Euclidean().step(theta, slope, everything(theta)).tolist() == [[0.0, 0.0, 1.0]]
