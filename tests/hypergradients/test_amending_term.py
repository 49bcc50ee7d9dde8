"""What Eq. 7 of Amended-DARTS promises, ⟨g2', g2⟩ ≥ 0, and where the promise holds.

There, ⟨g2', g2⟩ = η·gᵀ·H·MᵀM·H⁻¹·g with g = ∂L2/∂w. The matrix in the middle is similar to the positive semidefinite
MᵀM, which gives it non-negative eigenvalues, but not a non-negative quadratic form.
"""

from __future__ import annotations

import pytest
import torch
from seeded import randn
from torch import Tensor

from archgrad.bilevel.problem import BilevelProblem
from archgrad.hypergradients import Amended, ExactImplicit, FirstOrder, Hypergradient, Unrolled

Tensors = dict[str, Tensor]


def orthogonal(size: int, seed: int) -> Tensor:
    return torch.linalg.qr(randn(size, size, seed=seed))[0]


def spectrum(size: int, condition: float, seed: int) -> Tensor:
    """Return eigenvalues from 1 to ``condition``, even on a logarithmic scale."""
    places = torch.rand(size - 2, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return condition ** torch.cat([places, torch.tensor([0.0, 1.0], dtype=torch.float64)])


def second_term(member: Hypergradient, hessian: Tensor, mixed: Tensor, of_weights: Tensor) -> Tensor:
    """Return what a member adds to ∂L2/∂α at w* of ½wᵀHw + αᵀMw, where the outer gradient is ``of_weights``."""
    alpha = randn(len(mixed), seed=99)
    problem = BilevelProblem(
        inner=lambda w, a, _: 0.5 * w["w"] @ hessian @ w["w"] + a["a"] @ mixed @ w["w"],
        outer=lambda w, a, _: w["w"] @ of_weights + a["a"].square().sum(),
    )
    point = {"w": -torch.linalg.solve(hessian, mixed.T @ alpha)}, {"a": alpha}, None, None
    return member(problem, *point)["a"] - FirstOrder()(problem, *point)["a"]


def agreement(member: Hypergradient, hessian: Tensor, mixed: Tensor, of_weights: Tensor) -> float:
    """Return the cosine between what a member adds and the exact second term."""
    terms = [second_term(each, hessian, mixed, of_weights) for each in (member, ExactImplicit())]
    return torch.cosine_similarity(*terms, dim=0).item()


def random_problem(seed: int, condition: float, alphas: int = 10) -> tuple[Tensor, Tensor, Tensor]:
    basis = orthogonal(10, seed)
    hessian = basis @ torch.diag(spectrum(10, condition, seed + 1)) @ basis.T
    return hessian, randn(alphas, 10, seed=seed + 2), randn(10, seed=seed + 3)


@pytest.mark.parametrize("condition", [2.0, 100.0, 10_000.0])
def test_the_amending_term_never_points_astray_where_the_couplings_commute_with_the_hessian(condition: float) -> None:
    for seed in range(0, 200, 10):
        basis = orthogonal(10, seed)
        hessian = basis @ torch.diag(spectrum(10, condition, seed + 1)) @ basis.T
        mixed = orthogonal(10, seed + 2) @ torch.diag(randn(10, seed=seed + 3)) @ basis.T
        torch.testing.assert_close(mixed.T @ mixed @ hessian, hessian @ mixed.T @ mixed)
        assert agreement(Amended(0.1), hessian, mixed, randn(10, seed=seed + 4)) >= -1e-9


def test_the_amending_term_points_the_right_way_on_well_conditioned_problems() -> None:
    assert all(agreement(Amended(0.1), *random_problem(seed, condition=2.0)) >= 0.3 for seed in range(0, 1000, 10))


COUNTEREXAMPLE = (
    torch.diag(torch.tensor([1.0, 4.0], dtype=torch.float64)),
    torch.tensor([[1.0, 1.0]], dtype=torch.float64),
    torch.tensor([2.0, -1.0], dtype=torch.float64),
)
"""H = diag(1, 4), M = (1, 1), ∂L2/∂w = (2, −1): M·H·g = 2 − 4 < 0, but M·H⁻¹·g = 2 − 1/4 > 0."""


def test_equation_7_is_false_in_general_the_amending_term_can_point_against_the_exact_one() -> None:
    assert second_term(ExactImplicit(), *COUNTEREXAMPLE).item() == pytest.approx(-1.75)
    assert second_term(Amended(0.1), *COUNTEREXAMPLE).item() == pytest.approx(0.2)
    assert second_term(Unrolled(lr=0.1), *COUNTEREXAMPLE).item() == pytest.approx(-0.1)


def test_on_ill_conditioned_problems_the_amending_term_points_astray_more_often_than_that_of_second_order_darts() -> (
    None
):
    """H and H⁻¹ differ more than I and H⁻¹ do."""
    problems = [random_problem(seed, condition=100.0) for seed in range(0, 1000, 10)]
    amended, unrolled = (
        sum(agreement(member, *problem) < 0 for problem in problems) for member in (Amended(0.1), Unrolled(lr=0.001))
    )
    assert (amended, unrolled) == (49, 4)


def wide_problem(seed: int, condition: float, weights: int = 100, alphas: int = 4) -> tuple[Tensor, Tensor, Tensor]:
    """Return a problem with far fewer architecture parameters than weights."""
    basis = orthogonal(weights, seed)
    hessian = basis @ torch.diag(spectrum(weights, condition, seed + 1)) @ basis.T
    return hessian, randn(alphas, weights, seed=seed + 2), randn(weights, seed=seed + 3)


def test_few_architecture_parameters_do_not_save_equation_7() -> None:
    """Appendix A.5 argues that with #α ≪ #w the matrix is positive semidefinite "in most cases": it was in none.

    Its symmetric part has a negative eigenvalue in every problem, and on ill-conditioned ones a random gradient meets
    it as often as with as many α as weights.
    """
    problems = [wide_problem(seed, condition=100.0) for seed in range(0, 1000, 10)]
    for hessian, mixed, _ in problems[:20]:
        middle = hessian @ mixed.T @ mixed @ torch.linalg.inv(hessian)
        assert torch.linalg.eigvalsh((middle + middle.T) / 2).min() < -1e-3
    assert sum(agreement(Amended(0.1), *problem) < 0 for problem in problems) == 53
    well = [wide_problem(seed, condition=2.0) for seed in range(0, 300, 10)]
    assert all(agreement(Amended(0.1), *problem) > 0 for problem in well)
