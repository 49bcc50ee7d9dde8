from __future__ import annotations

import math

import pytest
import torch
from seeded import randn, symmetric
from torch import Tensor

from archgrad.autodiff.krylov import Operator, conjugate_gradient, dense, extreme_eigenvalues, neumann
from archgrad.autodiff.vectors import Vector, flattened, scaled, unflattened, zeros_like


def vector(seed: int) -> Vector:
    """Seven numbers in three pieces, one of them without a dimension."""
    return {"x": randn(2, 2, seed=seed), "y": randn(seed=seed + 1), "z": randn(2, 1, seed=seed + 2)}


def operator(matrix: Tensor) -> Operator:
    return lambda v: unflattened(matrix.to(flattened(v).dtype) @ flattened(v), v)


POSITIVE = [0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0]
INDEFINITE = [-2.0, -1.0, -0.5, 0.1, 0.3, 1.0, 4.0]
MOSTLY_NEGATIVE = [-4.0, -2.0, -0.5, 0.1, 0.3, 0.5, 1.0]


def test_dense_finds_the_matrix_behind_the_products() -> None:
    matrix = randn(7, 7, seed=3)
    torch.testing.assert_close(dense(operator(matrix), vector(0)), matrix)


@pytest.mark.parametrize("terms", [0, 1, 2, 7])
def test_neumann_is_the_sum_of_powers(terms: int) -> None:
    matrix, b, lr = symmetric(POSITIVE), vector(0), 0.2
    step = torch.eye(7, dtype=torch.float64) - lr * matrix
    expected = lr * sum(torch.linalg.matrix_power(step, k) for k in range(terms + 1)) @ flattened(b)
    torch.testing.assert_close(flattened(neumann(operator(matrix), b, terms, lr)), expected)


@pytest.mark.parametrize("damping", [0.0, 0.3])
def test_conjugate_gradient_solves_in_as_many_steps_as_dimensions(damping: float) -> None:
    matrix, b = symmetric(POSITIVE), vector(0)
    expected = torch.linalg.solve(matrix + damping * torch.eye(7, dtype=torch.float64), flattened(b))
    solution = conjugate_gradient(operator(matrix), b, 7, damping)
    assert solution.bad_curvature is None
    torch.testing.assert_close(flattened(solution.x), expected, rtol=1e-9, atol=1e-11)


def test_conjugate_gradient_stops_once_the_residual_is_gone() -> None:
    products = 0

    def identity(v: Vector) -> Vector:
        nonlocal products
        products += 1
        return v

    b = vector(0)
    assert torch.equal(flattened(conjugate_gradient(identity, b, 50).x), flattened(b))
    assert products == 1
    assert not flattened(conjugate_gradient(identity, zeros_like(b), 50).x).any()
    assert products == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
def test_conjugate_gradient_survives_more_steps_than_it_needs(dtype: torch.dtype) -> None:
    matrix, b = symmetric(POSITIVE), {name: value.to(dtype) for name, value in vector(0).items()}
    solution = conjugate_gradient(operator(matrix), b, 200)
    assert solution.bad_curvature is None
    expected = torch.linalg.solve(matrix, flattened(b).double()).to(dtype)
    torch.testing.assert_close(flattened(solution.x), expected, rtol=1e-4, atol=1e-5)


def test_conjugate_gradient_stops_at_negative_curvature_and_says_how_negative() -> None:
    b = {"v": torch.tensor([1.0, 1.0], dtype=torch.float64)}
    first = conjugate_gradient(operator(torch.diag(torch.tensor([1.0, -3.0]))), b, 5)
    assert first.bad_curvature == pytest.approx(-1.0)
    assert not first.x["v"].any()
    second = conjugate_gradient(operator(torch.diag(torch.tensor([4.0, -1.0]))), b, 5)
    assert second.bad_curvature is not None
    assert second.bad_curvature < 0
    torch.testing.assert_close(second.x["v"], b["v"] * 2 / 3)


def test_damping_above_the_negative_curvature_lets_conjugate_gradient_go_on() -> None:
    matrix, b = symmetric(INDEFINITE), vector(0)
    assert conjugate_gradient(operator(matrix), b, 7).bad_curvature is not None
    solution = conjugate_gradient(operator(matrix), b, 7, damping=2.5)
    assert solution.bad_curvature is None
    expected = torch.linalg.solve(matrix + 2.5 * torch.eye(7, dtype=torch.float64), flattened(b))
    torch.testing.assert_close(flattened(solution.x), expected, rtol=1e-8, atol=1e-9)


SPECTRA = {
    "positive": POSITIVE,
    "indefinite": INDEFINITE,
    "mostly negative": MOSTLY_NEGATIVE,
    "two ends of the same magnitude": [-1.0, -0.5, -0.2, 0.0, 0.1, 0.4, 1.0],
    "all the same": [2.0] * 7,
    "two values": [-3.0, -3.0, -3.0, 5.0, 5.0, 5.0, 5.0],
}
every_spectrum = pytest.mark.parametrize("eigenvalues", SPECTRA.values(), ids=SPECTRA)


@every_spectrum
@pytest.mark.parametrize("steps", [7, 8, 300], ids=["as_many_as_dimensions", "one_more", "far_too_many"])
def test_both_ends_of_a_spectrum_are_found(eigenvalues: list[float], steps: int) -> None:
    matrix = symmetric(eigenvalues)
    expected = torch.linalg.eigvalsh(matrix)
    found = extreme_eigenvalues(operator(matrix), vector(0), steps)
    assert found == pytest.approx((expected[0].item(), expected[-1].item()), rel=1e-9)


@every_spectrum
def test_both_ends_are_found_in_single_precision(eigenvalues: list[float]) -> None:
    start = {name: value.float() for name, value in vector(0).items()}
    found = extreme_eigenvalues(operator(symmetric(eigenvalues)), start, 20)
    assert found == pytest.approx((eigenvalues[0], eigenvalues[-1]), rel=1e-4)


def test_the_spectrum_of_nothing_is_nothing() -> None:
    start = vector(0)
    assert extreme_eigenvalues(operator(torch.zeros(7, 7)), start, 5) == (0.0, 0.0)
    assert extreme_eigenvalues(operator(symmetric(POSITIVE)), zeros_like(start), 5) == (0.0, 0.0)


@pytest.mark.parametrize("factor", [math.inf, math.nan])
def test_a_spectrum_that_is_not_finite_is_not_a_number(factor: float) -> None:
    assert all(map(math.isnan, extreme_eigenvalues(lambda v: scaled(v, factor), vector(0), 5)))
