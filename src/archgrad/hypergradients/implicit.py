"""Estimates by the implicit function theorem: each has its own approximation of the inverse Hessian."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch

from archgrad.autodiff.krylov import conjugate_gradient, dense, extreme_eigenvalues, neumann
from archgrad.autodiff.products import Products
from archgrad.autodiff.tensors import Alpha, Weights
from archgrad.autodiff.vectors import added, flattened, scaled, unflattened
from archgrad.errors import UserError
from archgrad.hypergradients.base import HypergradientState, Iterations, SecondOrder
from archgrad.hypergradients.evaluation_point import EvaluationPoint
from archgrad.parts.fields import NonNegative, Positive, Range
from archgrad.system.warn_once import warn_once

__all__ = ["T1T2", "Amended", "ConjugateGradient", "ExactImplicit", "Implicit", "Neumann", "largest_safe_rate"]

_LANCZOS_STEPS = 8
_LARGEST = 5000
"""The most weights of which a dense Hessian is built."""
_log = logging.getLogger(__name__)
_MESSAGE = (
    "conjugate gradient met a curvature of %.3g in the inner Hessian and stopped early; "
    "a damping above %.3g would let it go on."
)


@dataclass(frozen=True, kw_only=True)
class Implicit(SecondOrder):
    """dL2/dα ≈ ∂L2/∂α − M·x with x ≈ H⁻¹·∂L2/∂w, all at the current weights (iDARTS, Eq. 6; Amended-DARTS, Eq. 5).

    Each member computes its own x. Memory does not grow with the number of products. H is the Hessian of the inner loss
    alone, without the weight decay of a descent.
    """

    def estimate(self, point: EvaluationPoint, state: HypergradientState) -> tuple[Alpha, HypergradientState]:
        """Combine both terms."""
        direct, of_weights = point.outer()
        products = self.products_at(point)
        return added(direct, products.mixed(self.solve(products, of_weights, point)), -1.0), state

    @abstractmethod
    def solve(self, products: Products, b: Weights, point: EvaluationPoint) -> Weights:
        """Return an approximation x of H⁻¹·b."""


@dataclass(frozen=True)
class T1T2(Implicit):
    """∂L2/∂α − M·∂L2/∂w: the inverse Hessian is taken for the identity (Luketina et al., 2016; iDARTS, Table 4)."""

    def solve(self, products: Products, b: Weights, point: EvaluationPoint) -> Weights:
        """H⁻¹ ≈ I."""
        return b


@dataclass(frozen=True)
class Amended(Implicit):
    """∂L2/∂α − η·M·H·∂L2/∂w (Amended-DARTS, Eq. 6): the amending term has H where the exact gradient has H⁻¹.

    The paper takes central differences across the kinks (A.2), ``products="finite", kinks="crossed"``: H·v of ∇w L1 at
    w ± ε·v with v = ∂L2/∂w, then M·(H·v) of ∇α L1 at w ± ε·H·v. Its last formula prints ∇w L_val; by Eq. 6 it is
    ∇α L_train.
    Eq. 7 concludes that the amending term never points against the exact second term. That holds if MᵀM and H commute,
    but not in general: H⁻¹·MᵀM·H has non-negative eigenvalues, but its quadratic form can be negative. Appendix A.5
    claims it "in most cases" for #α ≪ #w; on random problems it fails there as often as elsewhere.
    """

    eta: NonNegative = 0.1

    def solve(self, products: Products, b: Weights, point: EvaluationPoint) -> Weights:
        """Return x = η·H·b."""
        return scaled(products.hessian(b), self.eta)


@dataclass(frozen=True)
class Neumann(Implicit):
    """∂L2/∂α − γ·M·Σ_{k=0..K} (I − γH)^k·∂L2/∂w (iDARTS, Eq. 8 and 9), K = ``terms``, γ = ``lr``.

    All products use the same inner batch. γ must be below 1/λmax(H) (Corollary 1). None is the weights' current
    learning rate; "auto" is 1/max|λ| by Lanczos, for 8 more Hessian products.

    >>> import torch
    >>> from archgrad.bilevel.problem import BilevelProblem
    >>> loss = lambda w, a, x: (w["w"] * x - a["a"]) ** 2  # the toy of Amended-DARTS, A.1
    >>> point = {"w": torch.tensor(3.0)}, {"a": torch.tensor(3.0)}
    >>> Neumann(terms=0, lr=0.5)(BilevelProblem(loss, loss), *point, torch.tensor(1.0), torch.tensor(2.0))
    {'a': tensor(6.)}
    """

    terms: Annotated[int, Range(0, 10_000)] = 2
    lr: Positive | Literal["auto"] | None = None

    @property
    def assumes_sgd(self) -> bool:
        """The learning rate of another optimizer says nothing of the largest γ for which the series converges."""
        return self.lr is None

    @property
    def callbacks(self) -> Mapping[str, Mapping[str, Any]]:
        """A callback that measures whether the series can converge."""
        return {"inner-curvature": {"lr": self.lr}}

    def solve(self, products: Products, b: Weights, point: EvaluationPoint) -> Weights:
        """Return x = γ·Σ (I − γH)^k·b."""
        return neumann(products.hessian, b, self.terms, self.rate(products, b, point))

    def rate(self, products: Products, b: Weights, point: EvaluationPoint) -> float:
        """Return γ at this point."""
        if isinstance(self.lr, str):
            return largest_safe_rate(*extreme_eigenvalues(products.hessian, b, _LANCZOS_STEPS))
        return point.descent_at(self.lr).lr


def largest_safe_rate(smallest: float, largest: float) -> float:
    """Return 1/max|λ|: 1/λmax where H is positive (iDARTS, Corollary 1), less where a negative λ is larger.

    Along a negative λ the terms of the series grow; with this γ each is at most twice the one before.
    """
    steepest = max(largest, -smallest)
    return 1 / steepest if steepest > 0 else 1.0


@dataclass(frozen=True)
class ConjugateGradient(Implicit):
    """∂L2/∂α − M·x, where (H + δI)·x = ∂L2/∂w is solved by conjugate gradient (Rajeswaran et al., 2019).

    Exact after as many ``steps`` as there are weights, if the ``damping`` δ makes H + δI positive definite. The
    iteration stops at a direction of negative curvature, with one warning.
    """

    steps: Iterations = 10
    damping: NonNegative = 0.0

    def solve(self, products: Products, b: Weights, point: EvaluationPoint) -> Weights:
        """Solve the damped system."""
        solution = conjugate_gradient(products.hessian, b, self.steps, self.damping)
        if solution.bad_curvature is not None:
            warn_once(_log, _MESSAGE, solution.bad_curvature - self.damping, self.damping - solution.bad_curvature)
        return Weights(solution.x)


@dataclass(frozen=True)
class ExactImplicit(Implicit):
    """∂L2/∂α − M·H⁻¹·∂L2/∂w with the Hessian as a matrix (iDARTS, Eq. 6): exact where ∂L1/∂w = 0.

    It takes one Hessian product per weight and O(P²) memory: for small problems of at most 5,000 weights.
    """

    def check(self, weights: int) -> None:
        """Reject more weights than a dense Hessian allows."""
        if weights > _LARGEST:
            raise UserError(
                f"ExactImplicit builds the dense Hessian of {weights} weights, but its limit is {_LARGEST}; use "
                f"ConjugateGradient or Neumann, which need only Hessian products."
            )

    def solve(self, products: Products, b: Weights, point: EvaluationPoint) -> Weights:
        """Solve H·x = b."""
        self.check(sum(value.numel() for value in b.values()))
        matrix = dense(products.hessian, b)
        solution, failed = torch.linalg.solve_ex((matrix + matrix.T) / 2, flattened(b))
        if failed:
            raise UserError(
                "the Hessian of the inner loss is singular, so w* is not a function of α; add a little weight decay to "
                "the inner loss, or use ConjugateGradient with damping."
            )
        return unflattened(solution, b)
