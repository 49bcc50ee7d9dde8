from __future__ import annotations

from contextlib import AbstractContextManager

import pytest
import torch
from seeded import randn
from torch import Tensor

from archgrad.bilevel.descent import Descent
from archgrad.bilevel.problem import BilevelProblem
from archgrad.diagnostics import EstimateComparison, average, compare, layer_gradients, reference_at
from archgrad.hypergradients import (
    SOBA,
    ConjugateGradient,
    EvaluationPoint,
    ExactImplicit,
    FirstOrder,
    Neumann,
    evaluate_at,
)

Tensors = dict[str, Tensor]


ROOT, COUPLING = randn(6, 6, seed=0), randn(3, 6, seed=1)


def problem(shift: float) -> BilevelProblem:
    def inner(w: Tensors, a: Tensors, batch: None) -> Tensor:
        curved = 0.5 * (ROOT @ w["w"]).square().sum() + 0.5 * shift * w["w"].square().sum()
        return curved - a["a"] @ COUPLING @ w["w"]

    def outer(w: Tensors, a: Tensors, batch: None) -> Tensor:
        return (w["w"] - 1).square().sum() + a["a"].sin().sum()

    return BilevelProblem(inner, outer)


def at(shift: float, descent: Descent | None = None) -> AbstractContextManager[EvaluationPoint]:
    return evaluate_at(problem(shift), {"w": randn(6, seed=2)}, {"a": randn(3, seed=3)}, None, None, descent)


def comparisons(point: EvaluationPoint, reference: ConjugateGradient) -> dict[str, EstimateComparison]:
    return compare(point, {"first": FirstOrder(), "exact": ExactImplicit(), "series": Neumann(0, 0.01)}, reference)


def test_the_reference_is_exact_on_a_convex_problem() -> None:
    with at(0.5) as point:
        reference = reference_at(point, 12)
        found = comparisons(point, reference.estimator)
    spectrum = torch.linalg.eigvalsh(ROOT.T @ ROOT + 0.5 * torch.eye(6, dtype=torch.float64))
    assert reference.estimator.damping == 0
    assert reference.lambda_max == pytest.approx(spectrum[-1].item())
    assert reference.lambda_min == pytest.approx(spectrum[0].item())
    assert found["exact"].cosine == pytest.approx(1.0)
    assert found["exact"].length == pytest.approx(1.0)
    assert found["exact"].second_cosine == pytest.approx(1.0)
    assert found["first"].second_share == 0
    assert found["first"].second_cosine == 0
    assert found["first"].cosine < 1
    assert 0 < found["series"].second_share < found["exact"].second_share


def test_the_reference_is_damped_as_much_as_the_problem_needs() -> None:
    with at(-1.0, Descent(0.1, weight_decay=0.01)) as point:
        reference = reference_at(point, 12)
    assert reference.lambda_min < 0
    assert reference.estimator.damping == pytest.approx(0.01 - 1.1 * reference.lambda_min)


def test_means_are_taken_of_every_number() -> None:
    assert average([EstimateComparison(1, 2, 3, 4), EstimateComparison(3, 4, 5, 6)]) == EstimateComparison(2, 3, 4, 5)


def test_an_estimate_begins_at_its_state() -> None:
    one_step = SOBA(0.1)
    with at(0.5) as point:
        exact, truth = ExactImplicit(), ExactImplicit().estimate_once(point)
        hessian = ROOT.T @ ROOT + 0.5 * torch.eye(6, dtype=torch.float64)
        state = {"solution": {"w": torch.linalg.solve(hessian, point.outer()[1]["w"])}}
        first, own = (compare(point, {"own": one_step}, exact, states)["own"] for states in ({}, {"own": state}))
        layers = layer_gradients(point, one_step, state)
    assert first.second_share == 0
    assert (own.cosine, own.length) == (pytest.approx(1.0), pytest.approx(1.0))
    torch.testing.assert_close(layers["a"], truth["a"])
