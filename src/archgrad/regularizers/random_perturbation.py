"""Random noise on the mixture of a weight step, as in SDARTS-RS."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from archgrad.errors import check_number
from archgrad.regularizers.base import PerturbStep, Regularizer
from archgrad.schedule import ramp

__all__ = ["RandomPerturbation", "drawn", "shifted"]


@dataclass(frozen=True)
class RandomPerturbation(Regularizer):
    """Train the weights at p + δ with δ ~ U[−ε, ε] drawn anew in every step (SDARTS-RS; Chen & Hsieh, 2020).

    ε grows linearly over the search, from ``start`` to ``end``. All cells of a block see the same δ, since they share
    one p. Weights of operations are perturbed and edge weights are not: the paper knows the former only, and a
    perturbed edge weight, which multiplies them all, would take the product out of the ball. Nothing is clipped or
    normalised afterwards, so that a weight may be negative and a row need not sum to 1. The architecture's own step
    sees p.
    """

    start: float = 0.03
    end: float = 0.3

    def __post_init__(self) -> None:
        check_number("start of RandomPerturbation", self.start)
        check_number("end of RandomPerturbation", self.end)

    def radius(self, progress: float) -> float:
        """Return ε."""
        return ramp(self.start, self.end, progress)

    def perturb(self, step: PerturbStep) -> dict[str, Tensor]:
        """Add one draw of the noise."""
        return shifted(step.mixture, drawn(step, self.radius(step.progress)))


def drawn(step: PerturbStep, radius: float) -> dict[str, Tensor]:
    """Draw ``{block: [rows, choices]}``, uniform in ±``radius``, for the real choices of all blocks of operations."""
    noise, stream = {}, step.generator
    for block in (block for block in step.blocks if block.kind == "operation"):
        uniform = torch.rand(block.shape, generator=stream, device=stream.device, dtype=torch.float64)
        shift = radius * (2 * uniform - 1) * block.mask.to(uniform.device)
        noise[block.name] = shift.to(step.mixture[block.name])
    return noise


def shifted(mixture: dict[str, Tensor], shift: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return mixture + shift, the same in all cells, and as it is where a block has no shift."""
    return {name: value + shift[name] if name in shift else value for name, value in mixture.items()}
