"""Compares cheap hypergradients with an accurate reference at one point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from statistics import mean
from types import MappingProxyType

import torch

from archgrad.autodiff.krylov import extreme_eigenvalues
from archgrad.autodiff.products import products_of
from archgrad.autodiff.tensors import Weights
from archgrad.autodiff.vectors import added, cosine, norm
from archgrad.errors import UserError
from archgrad.hypergradients import ConjugateGradient, EvaluationPoint, Hypergradient, HypergradientState
from archgrad.parts.fields import checked

__all__ = ["EstimateComparison", "Reference", "average", "compare", "reference_at", "start_vector"]

_LANCZOS_STEPS = 30
_MARGIN = 1.1


@dataclass(frozen=True)
class EstimateComparison:
    """An estimate of dL2/dα compared with the reference.

    ``cosine`` and ``length`` compare the whole estimates. ``second_cosine`` compares only what they add to ∂L2/∂α, and
    ``second_share`` is the length of that part in units of ∂L2/∂α.
    """

    cosine: float
    length: float
    second_cosine: float
    second_share: float


@dataclass(frozen=True)
class Reference:
    """Long conjugate gradient with exact products, and the spectrum that its damping was chosen for."""

    estimator: ConjugateGradient
    lambda_max: float
    lambda_min: float


@checked
def reference_at(point: EvaluationPoint, steps: int) -> Reference:
    """Choose the reference at a point: ``steps`` of conjugate gradient on H + δI.

    δ is the weight decay of the inner problem, plus as much as makes H + δI positive definite.
    """
    products = products_of("exact", point.inner(), point.weights, point.alpha)
    smallest, largest = extreme_eigenvalues(products.hessian, start_vector(point.weights), _LANCZOS_STEPS)
    decay = 0.0 if point.descent is None else point.descent.weight_decay
    damping = decay + _MARGIN * max(-smallest, 0.0)
    return Reference(ConjugateGradient(steps, damping), largest, smallest)


@checked
def compare(
    point: EvaluationPoint,
    estimators: Mapping[str, Hypergradient],
    reference: Hypergradient,
    states: Mapping[str, HypergradientState] = MappingProxyType({}),
) -> dict[str, EstimateComparison]:
    """Compare estimates at one point with the reference there; each begins at its state, if ``states`` has it."""
    truth = reference.estimate_once(point)
    true_second = added(truth, reference.direct(point), -1.0)
    compared = {}
    for name, estimator in estimators.items():
        estimate, direct = estimator.estimate_once(point, states.get(name)), estimator.direct(point)
        second = added(estimate, direct, -1.0)
        compared[name] = EstimateComparison(
            cosine=cosine(estimate, truth),
            length=_ratio(norm(estimate), norm(truth)),
            second_cosine=cosine(second, true_second),
            second_share=_ratio(norm(second), norm(direct)),
        )
    return compared


@checked
def average(comparisons: Sequence[EstimateComparison]) -> EstimateComparison:
    """Return the means over several points."""
    if not comparisons:
        raise UserError("comparisons is empty; give at least one.")
    return EstimateComparison(
        *(mean(getattr(one, field.name) for one in comparisons) for field in fields(EstimateComparison))
    )


def _ratio(length: float, unit: float) -> float:
    return length / unit if unit else float("inf") if length else 1.0


def start_vector(weights: Weights) -> Weights:
    """Return a fixed random vector, which is orthogonal to no eigenvector."""
    generator = torch.Generator().manual_seed(0)
    return Weights(
        {
            name: torch.randn(value.shape, generator=generator, dtype=torch.float64).to(value)
            for name, value in weights.items()
        }
    )
