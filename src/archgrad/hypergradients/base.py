"""The family of hypergradients: from a bilevel problem to dL2/dα."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from torch import Tensor

from archgrad.autodiff.products import Kinks, ProductKind, Products
from archgrad.autodiff.tensors import Alpha, Weights, check_tensors
from archgrad.bilevel.descent import InnerDescent
from archgrad.bilevel.problem import BilevelProblem
from archgrad.errors import UserError, shortened
from archgrad.hypergradients.evaluation_point import EvaluationPoint, evaluate_at
from archgrad.parts.fields import Range, check_fields, check_value
from archgrad.training.weight_training import WeightTraining

__all__ = ["Hypergradient", "HypergradientState", "Iterations", "SecondOrder"]

Iterations = Annotated[int, Range(1, 10_000)]
"""A number of products or inner steps in one estimate."""

HypergradientState = dict[str, dict[str, Tensor]]
"""What an estimate keeps for the next one: quantity → name of a weight or a block → tensor. Most keep nothing."""


class Hypergradient(ABC):
    """Estimate dL2/dα = ∂L2/∂α + (dw*/dα)ᵀ·∂L2/∂w at the current weights.

    A ``per_image`` estimate evaluates the outer loss with an α for each image. An estimate of ``order`` 1
    differentiates the outer loss once and ignores the inner loss; one of order 2 needs second derivatives, exact or by
    differences. A member with a state returns it from :meth:`init` and :meth:`estimate`; a search keeps it, also in its
    checkpoints. A member that draws random numbers draws them from ``point.generator``.
    """

    def __post_init__(self) -> None:
        check_fields(self, "hypergradient.{}")

    def __call__(
        self,
        problem: BilevelProblem,
        weights: Weights,
        alpha: Alpha,
        inner_batch: Any,
        outer_batch: Any,
        *,
        descent: InnerDescent | None = None,
        generator: torch.Generator | None = None,
    ) -> Alpha:
        """Return the gradient from the initial state, a dict like ``alpha``.

        Weights, α and the random state stay bit for bit the same, even if a loss raises. ``descent`` says how the
        weights are trained; a search passes it. Estimates with their own learning rate do not need it. Without a
        ``generator``, every call draws the same random numbers.
        """
        check_value("problem", problem, BilevelProblem)
        check_value("descent", descent, InnerDescent | None)
        check_tensors("weights", weights)
        check_tensors("alpha", alpha)
        with evaluate_at(problem, weights, alpha, inner_batch, outer_batch, descent, generator=generator) as point:
            gradient = self.estimate_once(point)
        return Alpha({name: value.detach().clone() for name, value in gradient.items()})

    def init(self, weights: Weights, alpha: Alpha) -> HypergradientState:
        """Return the state before the first estimate; by default it is empty."""
        return {}

    @abstractmethod
    def estimate(self, point: EvaluationPoint, state: HypergradientState) -> tuple[Alpha, HypergradientState]:
        """Return the gradient at a point whose variables are constants, and the state for the next estimate."""

    def estimate_once(self, point: EvaluationPoint, state: HypergradientState | None = None) -> Alpha:
        """Return the gradient alone, from a state or, by default, from the initial one."""
        return self.estimate(point, self.init(point.weights, point.alpha) if state is None else state)[0]

    def direct(self, point: EvaluationPoint) -> Alpha:
        """Return the first term of the estimate, ∂L2/∂α, at the weights where the estimate takes it."""
        return point.direct()

    def check(self, weights: int) -> None:
        """Raise a UserError, before any training, if it cannot handle this number of weights."""
        return

    @property
    def per_image(self) -> bool:
        """Whether it evaluates the outer loss with an α for each image."""
        return False

    @property
    def order(self) -> int:
        """How often it differentiates a loss."""
        return 2

    @property
    def is_plain(self) -> bool:
        """Whether the estimate is ∂L2/∂α itself, which the backward pass of a weight step also gives."""
        return self.order == 1 and not self.per_image

    @property
    def optimizers(self) -> tuple[str, ...] | None:
        """The optimizers of the weights whose steps or learning rate the estimate knows; None if it needs neither."""
        return None

    def knows(self, training: WeightTraining) -> bool:
        """Tell whether it can estimate while the weights are trained like this."""
        return self.optimizers is None or training.known_steps in self.optimizers

    def check_optimizer(self, training: WeightTraining) -> None:
        """Raise a UserError if it does not know the steps by which the weights are trained."""
        if self.optimizers is not None and not self.knows(training):
            settings = training.optimizer_settings
            more = f" with settings {shortened(','.join(settings))}" if settings else ""
            raise UserError(
                f"{type(self).__name__} knows only the steps of {', '.join(self.optimizers)}, but weights.optimizer "
                f"is {shortened(training.optimizer)}{more}; set weights.optimizer to a known one (Adam may "
                f"have other betas and eps), or take first-order, amended, or neumann with hypergradient.lr=auto."
            )

    @property
    def difference(self) -> ProductKind | None:
        """The kind of differences with frozen kinks in the estimate, which must agree with exact products; or None."""
        return None

    @property
    def inner_batches(self) -> int:
        """The number of inner batches that the estimate reads."""
        return 1

    @property
    def callbacks(self) -> Mapping[str, Mapping[str, Any]]:
        """The callbacks that a search with this estimate should have, by name, with their knobs."""
        return {}


@dataclass(frozen=True, kw_only=True)
class SecondOrder(Hypergradient):
    """An estimate with products of H = ∂²L1/∂w∂w and M = ∂²L1/∂α∂w, exact or by differences of gradients.

    Differences with ``kinks`` "frozen" are of the smooth function that L1 is around w. With "crossed" they are those of
    the papers (DARTS, Section 2.3; iDARTS, Eq. 46 and 47; Amended-DARTS, A.2), which also count units that switch
    between the two ends; their ``products`` are "finite", those of iDARTS "exact-hessian".
    """

    products: ProductKind = "exact"
    kinks: Kinks = "frozen"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kinks == "crossed" and self.products == "exact":
            raise UserError(
                "hypergradient.kinks is 'crossed', but exact products take no differences that could cross them; set "
                "hypergradient.products to finite, forward or exact-hessian, or hypergradient.kinks to frozen."
            )

    @property
    def difference(self) -> ProductKind | None:
        """The kind of its products, unless they are exact or meant to cross the kinks."""
        return None if self.products == "exact" or self.kinks == "crossed" else self.products

    def products_at(self, point: EvaluationPoint, step: int = 0, weights: Weights | None = None) -> Products:
        """Return its products at a point, or at other weights of an inner step."""
        return point.products(self.products, step, weights, self.kinks)
