"""Random noise on the mixture of a weight step, as in SDARTS-RS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from archgrad.autodiff.tensors import Mixture
from archgrad.parts.fields import NonNegative
from archgrad.regularizers.base import PerturbStep, Regularizer
from archgrad.spaces import DecisionBlock
from archgrad.system.devices import wide_type
from archgrad.training.schedule import ramp

__all__ = ["RandomPerturbation", "Shift", "add_shift", "draw_noise"]

Shift = dict[str, Tensor]
"""Block → δ ``[rows, choices]``, the same in all its cells."""


@dataclass(frozen=True)
class RandomPerturbation(Regularizer):
    """Train the weights at p + δ with δ ~ U[−ε, ε] drawn anew in every step (SDARTS-RS; Chen & Hsieh, 2020).

    ε grows linearly from ``start`` to ``end``. p + δ is clamped to [0, 1] and every row divided by its sum, as in the
    published code, so that it is a mixture again. All cells of a block share one p and one δ. Edge weights are not
    perturbed: the paper has none, and perturbing such a factor would move the product out of the ball. The architecture
    step uses p.
    """

    needs_simplex: ClassVar[bool] = True

    start: NonNegative = 0.03
    end: NonNegative = 0.3

    def radius(self, progress: float) -> float:
        """Return ε."""
        return ramp(self.start, self.end, progress)

    def perturb(self, step: PerturbStep) -> Mixture:
        """Add one draw of the noise."""
        return add_shift(step.blocks, step.mixture, draw_noise(step, self.radius(step.progress)))


def draw_noise(step: PerturbStep, radius: float) -> Shift:
    """Draw ``{block: [rows, choices]}``, uniform in ±``radius``, for the real choices of all blocks of operations."""
    noise, stream = {}, step.generator
    for block in (block for block in step.blocks if block.kind == "operation"):
        uniform = torch.rand(block.shape, generator=stream, device=stream.device, dtype=wide_type(stream.device))
        shift = radius * (2 * uniform - 1) * block.mask_on(uniform.device)
        noise[block.name] = shift.to(step.mixture[block.name])
    return noise


def add_shift(blocks: Sequence[DecisionBlock], mixture: Mixture, shift: Shift) -> Mixture:
    """Return mixture + shift as a mixture again, with the same shift in all cells; other blocks stay the same.

    Weights are clamped to [0, 1] and divided by the sum of their row. A row that is all 0 after clamping becomes
    one-hot at its largest entry before clamping. α gets no gradient through the change.
    """
    masks = {block.name: block.mask_on(mixture[block.name].device) for block in blocks}
    return Mixture(
        {name: _moved(value, shift[name], masks[name]) if name in shift else value for name, value in mixture.items()}
    )


def _moved(value: Tensor, shift: Tensor, mask: Tensor) -> Tensor:
    fixed = value.detach()
    found = _normalized(fixed + shift, mask)
    return value + (found - fixed) if value.requires_grad else found


def _normalized(weights: Tensor, mask: Tensor) -> Tensor:
    clamped = weights.clamp(0, 1) * mask
    total = clamped.sum(-1, keepdim=True)
    largest = weights.masked_fill(~mask, -torch.inf).argmax(-1, keepdim=True)
    alone = torch.zeros_like(weights).scatter(-1, largest, 1.0)
    return torch.where(total > 0, clamped / total.clamp(min=torch.finfo(total.dtype).tiny), alone)
