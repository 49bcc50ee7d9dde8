"""One step of the linear system for each step of α."""

from __future__ import annotations

from dataclasses import dataclass

from archgrad.autodiff.tensors import Alpha, Weights
from archgrad.autodiff.vectors import added, zeros_like
from archgrad.hypergradients.base import HypergradientState, SecondOrder
from archgrad.hypergradients.evaluation_point import EvaluationPoint
from archgrad.parts.fields import NonNegative, Positive, Probability

__all__ = ["SOBA"]


@dataclass(frozen=True)
class SOBA(SecondOrder):
    """∂L2/∂α − M·v, where v follows H⁻¹·∂L2/∂w by one step at each estimate (Dagréou et al., 2022, Algorithm 1).

    v ← v − ρ·r with r = (H + δI)·v − ∂L2/∂w, both products at the old v, as in the paper: one joint product. The first
    estimate is of first order, since v begins at 0. With ``momentum`` μ, m ← μm + r and v ← v − ρm.

    ρ = ``lr`` must be below 2/λmax(H + δI); None is the weights' current learning rate, because the paper moves weights
    and v at the same rate. Along a negative eigenvalue of H beyond the ``damping`` δ, v grows without bound.
    """

    lr: Positive | None = None
    momentum: Probability = 0.0
    damping: NonNegative = 0.0

    @property
    def optimizers(self) -> tuple[str, ...] | None:
        """The learning rate of another than SGD says nothing of the largest ρ for which v converges."""
        return ("sgd",) if self.lr is None else None

    def init(self, weights: Weights, alpha: Alpha) -> HypergradientState:
        """Begin at v = 0."""
        return {name: zeros_like(weights) for name in ("solution", "velocity")[: 2 if self.momentum else 1]}

    def estimate(self, point: EvaluationPoint, state: HypergradientState) -> tuple[Alpha, HypergradientState]:
        """Combine both terms at v, and move v."""
        direct, b = point.outer()
        v = Weights(state["solution"])
        image, mixed = self.products_at(point).both(v)
        step = added(added(image, v, self.damping), b, -1.0)
        if self.momentum:
            step = added(step, state["velocity"], self.momentum)
        following = {"solution": added(v, step, -point.rate(self.lr)), "velocity": step}
        return added(direct, mixed, -1.0), {name: following[name] for name in state}
