"""Train the weights at mixtures nearby: random ones as in SDARTS-RS, or the worst as in SDARTS-ADV."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from torch import Tensor

from archgrad.autodiff.tensors import Mixture
from archgrad.parts.fields import NonNegative, Range
from archgrad.regularizers.base import PerturbStep, Regularizer
from archgrad.spaces import DecisionBlock
from archgrad.system.devices import wide_type
from archgrad.training.schedule import ramp

__all__ = ["AdversarialPerturbation", "RandomPerturbation", "add_shift", "draw_noise"]

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


@dataclass(frozen=True)
class AdversarialPerturbation(Regularizer):
    """Train the weights at p + δ, where δ maximizes L1 over ‖δ‖∞ ≤ ε (SDARTS-ADV; Chen & Hsieh, 2020).

    Projected gradient ascent from a random point of the ball finds δ: ``steps`` times δ ← clip(δ + 2ε/``steps`` ·
    sign(∂L1/∂p), ±ε), each with a forward and a backward pass on the batch of the weight step. p + δ is normalized to a
    mixture as in :class:`~archgrad.regularizers.RandomPerturbation`. If the loss there is lower than at p, the weights
    are trained at p. Both rules follow the published code. ε grows linearly from ``start`` to ``end``. All cells of a
    block share one δ, edge weights stay the same, and α gets no gradient through δ.
    """

    needs_simplex: ClassVar[bool] = True

    start: NonNegative = 0.03
    end: NonNegative = 0.3
    steps: Annotated[int, Range(1, 1000)] = 7

    def perturb(self, step: PerturbStep) -> Mixture:
        """Return p + δ if the ascent raised the loss, else p."""
        radius = ramp(self.start, self.end, step.progress)
        shift = draw_noise(step, radius)
        fixed = Mixture({name: value.detach() for name, value in step.mixture.items()})
        for _ in range(self.steps):
            at = add_shift(step.blocks, fixed, shift)
            gradients = _mixture_gradients(step, at, shift)
            shift = {
                name: (_change(at[name], fixed[name], value) + 2 * radius / self.steps * gradients[name].sign()).clamp(
                    -radius, radius
                )
                for name, value in shift.items()
            }
        with torch.no_grad():
            rose = step.loss(add_shift(step.blocks, fixed, shift)) >= step.loss(fixed)
        return add_shift(step.blocks, step.mixture, shift) if rose else step.mixture


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


def _mixture_gradients(step: PerturbStep, at: Mixture, shift: Shift) -> Shift:
    """Return ∂L1/∂p summed over the cells of the shifted blocks; zero where the loss does not depend on it."""
    leaves = {name: at[name].detach().requires_grad_() for name in shift}
    with torch.enable_grad():
        loss = step.loss(Mixture({**at, **leaves}))
        found = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True, materialize_grads=True)
    return {name: gradient.sum(0) for name, gradient in zip(leaves, found, strict=True)}


def _change(at: Tensor, fixed: Tensor, shift: Tensor) -> Tensor:
    """Return the change of the block's mixture if all cells share one mixture, else their common shift."""
    moved = at - fixed
    return moved[0] if bool((moved == moved[:1]).all()) else shift
