"""The gradient at the worst architecture nearby: A²M."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from archgrad.autodiff.products import ProductKind
from archgrad.autodiff.tensors import Alpha, Weights
from archgrad.autodiff.vectors import added, norm
from archgrad.hypergradients.base import Hypergradient, HypergradientState
from archgrad.hypergradients.evaluation_point import EvaluationPoint
from archgrad.hypergradients.first_order import FirstOrder
from archgrad.parts.fields import Positive
from archgrad.training.weight_training import WeightTraining

__all__ = ["SharpnessAware"]


@dataclass(frozen=True)
class SharpnessAware(Hypergradient):
    """Another estimate at α + ρ·g/‖g‖, where g is that estimate at α (A²M; Gambella et al., 2025).

    The norm is over all blocks. To first order in ρ it is the gradient of L2 + ρ·‖g‖, so α moves to where L2 is flat.
    Every estimate is made twice, with the same batches, weights, noise and draws. On the simplex the second one may be
    a little outside of it. The published code moves by ρ·g, without ‖g‖, and adds a difference along the second
    gradient.
    """

    rho: Positive = 0.1
    of: Hypergradient = field(default_factory=FirstOrder, metadata={"knob": False})

    def estimate(self, point: EvaluationPoint, state: HypergradientState) -> tuple[Alpha, HypergradientState]:
        """Estimate, move α uphill, and estimate there from the same state."""
        return self.of.estimate(self._uphill(point, state), state)

    def _uphill(self, point: EvaluationPoint, state: HypergradientState) -> EvaluationPoint:
        draws = point.generator.get_state()
        gradient, _ = self.of.estimate(point, state)
        point.generator.set_state(draws)
        length = norm(gradient)
        return replace(point, alpha=added(point.alpha, gradient, self.rho / length)) if length else point

    def init(self, weights: Weights, alpha: Alpha) -> HypergradientState:
        """Return the state of the other estimate."""
        return self.of.init(weights, alpha)

    def direct(self, point: EvaluationPoint) -> Alpha:
        """Return the first term of the second estimate."""
        return self.of.direct(self._uphill(point, self.init(point.weights, point.alpha)))

    def check(self, weights: int) -> None:
        """Ask the other estimate."""
        self.of.check(weights)

    @property
    def order(self) -> int:
        """That of the other estimate."""
        return self.of.order

    @property
    def is_plain(self) -> bool:
        """Never, because it is taken elsewhere."""
        return False

    @property
    def per_image(self) -> bool:
        """Whether the other estimate is."""
        return self.of.per_image

    @property
    def optimizers(self) -> tuple[str, ...] | None:
        """Those that the other estimate knows."""
        return self.of.optimizers

    def check_optimizer(self, training: WeightTraining) -> None:
        """Ask the other estimate."""
        self.of.check_optimizer(training)

    @property
    def difference(self) -> ProductKind | None:
        """The differences of the other estimate."""
        return self.of.difference

    @property
    def inner_batches(self) -> int:
        """The inner batches of the other estimate."""
        return self.of.inner_batches

    @property
    def callbacks(self) -> Mapping[str, Mapping[str, Any]]:
        """The callbacks of the other estimate."""
        return self.of.callbacks
