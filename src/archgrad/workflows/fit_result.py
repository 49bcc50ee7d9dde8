"""The result of a fit: a model, and what is known about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from archgrad.data import Data
from archgrad.models import Model
from archgrad.spaces import Genotype
from archgrad.workflows.baseline import Comparison
from archgrad.workflows.fit_plan import FitPlan
from archgrad.workflows.select import Selection
from archgrad.workflows.train_result import TrainResult

__all__ = ["FitResult"]


@dataclass(frozen=True)
class FitResult:
    """A model for the images, and what is known about it.

    ``outputs`` [N, classes] are those on the ``tests``, which trained and chose nothing. ``interval`` is the 95 %
    interval of the accuracy, and ``seconds`` the time of each part.
    """

    model: Model
    plan: FitPlan
    selection: Selection
    baseline: TrainResult
    comparison: Comparison
    interval: tuple[float, float]
    tests: Data = field(repr=False)
    outputs: Tensor = field(repr=False)
    seconds: dict[str, float]
    folder: Path | None = None

    @property
    def genotype(self) -> Genotype:
        """The architecture."""
        return self.selection.genotype

    @property
    def accuracy(self) -> float:
        """The accuracy on the test images in per cent."""
        return self.comparison.accuracy

    def to_dict(self) -> dict[str, Any]:
        """Return the content of ``fit.json``'s result."""
        final, baseline = self.selection.final, self.baseline
        return {
            "accuracy": self.accuracy,
            "interval": list(self.interval),
            "test_images": len(self.tests),
            "genotype": str(self.genotype),
            "channels": final.space.channels,
            "depth": getattr(final.space, final.space.depth_knob),
            "epochs": final.epochs,
            "parameters": final.cost.parameters,
            "multiply_adds": final.cost.multiply_adds,
            "baseline": {
                "accuracy": self.comparison.baseline, "p_value": self.comparison.p_value,
                "channels": baseline.space.channels, "parameters": baseline.cost.parameters,
                "epochs": baseline.epochs,
            },
            "verdict": str(self.comparison),
            "seconds": {name: round(one, 1) for name, one in self.seconds.items()},
        }  # fmt: skip
