"""Train the weights at the worst nearby mixture, as in SDARTS-ADV."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from torch import Tensor

from archgrad.autodiff.tensors import Mixture
from archgrad.parts.fields import NonNegative, Range
from archgrad.regularizers.base import PerturbStep, Regularizer
from archgrad.regularizers.random_perturbation import Shift, add_shift, draw_noise
from archgrad.training.schedule import ramp

__all__ = ["AdversarialPerturbation"]


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
