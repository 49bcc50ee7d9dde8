"""The distance of a running search from a stationary point of weights and architecture."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from archgrad.arch_optimizers import GEOMETRIES
from archgrad.callbacks.base import Callback, Measures
from archgrad.diagnostics import bregman_stationarity
from archgrad.errors import UserError
from archgrad.hypergradients import EvaluationPoint
from archgrad.parts.fields import Count, Positive, Range
from archgrad.spaces import DecisionBlock

__all__ = ["Stationarity"]


@dataclass(frozen=True)
class Stationarity(Callback):
    """Measure Δ_λ of the outer loss at (w, θ), where θ is on the simplex (GAEA, Eq. 7).

    It reads one outer batch, so it is most meaningful where weights and architecture share their data. Each measurement
    evaluates loss and gradient up to ``steps`` times. The theory takes ``lam`` = 1/(2γ), where γ measures how far the
    loss is from convex. The Euclidean geometry needs the searched ``blocks``: without them it cannot tell a choice that
    has reached 0 from one that a shorter row lacks.
    """

    kind: ClassVar[str] = "stationarity"

    every: Count = 250
    lam: Positive = 0.01
    geometry: Literal["entropy", "euclidean"] = "entropy"
    steps: Annotated[int, Range(1, 10_000)] = 50
    tolerance: Positive = 1e-2
    blocks: tuple[DecisionBlock, ...] = field(default=(), metadata={"knob": False})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.geometry == "euclidean" and not self.blocks:
            raise UserError(
                "blocks of Stationarity is empty, but the euclidean geometry cannot tell a choice that has reached 0 "
                "from one that does not exist; give blocks=space.searched_blocks(), or geometry='entropy'."
            )

    def measure_point(self, point: EvaluationPoint) -> Measures:
        """Return ``stationarity``."""
        value = bregman_stationarity(
            lambda weights, alpha: point.problem.outer(weights, alpha, point.outer_batch),
            point.weights,
            point.alpha,
            GEOMETRIES[self.geometry],
            self.lam,
            support={block.name: block.mask for block in self.blocks} or None,
            steps=self.steps,
            tolerance=self.tolerance,
        )
        return {"stationarity": value}
