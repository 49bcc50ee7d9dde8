"""The worst nearby mixture of a weight step, as in SDARTS-ADV."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from archgrad.errors import check_number, check_whole
from archgrad.regularizers.base import PerturbStep, Regularizer
from archgrad.regularizers.random_perturbation import add_shift, draw_noise
from archgrad.schedule import ramp
from archgrad.tensors import Mixture

__all__ = ["AdversarialPerturbation"]

Shift = dict[str, Tensor]
"""Block → δ ``[rows, choices]``, the same in all its cells."""


@dataclass(frozen=True)
class AdversarialPerturbation(Regularizer):
    """Train the weights at p + δ, where δ maximizes L1 over ‖δ‖∞ ≤ ε (SDARTS-ADV; Chen & Hsieh, 2020).

    δ is sought by projected gradient ascent from a random point of the ball: ``steps`` times
    δ ← clip(δ + 2ε/``steps`` · sign(∂L1/∂p), ±ε), each a forward and a backward pass on the batch of the weight step,
    at p + δ made a mixture again as in :class:`~archgrad.regularizers.RandomPerturbation`. The weights are trained
    there only if the loss is not lower than at p, else at p. Both rules are those of the published code.
    ε grows linearly from ``start`` to ``end``. All cells of a block see one δ, and edge weights are left alone. δ is a
    constant to α.
    """

    start: float = 0.03
    end: float = 0.3
    steps: int = 7

    def __post_init__(self) -> None:
        check_number("start of AdversarialPerturbation", self.start)
        check_number("end of AdversarialPerturbation", self.end)
        check_whole("steps of AdversarialPerturbation", self.steps)

    def perturb(self, step: PerturbStep) -> Mixture:
        """Add what the ascent found, if it found a higher loss."""
        radius = ramp(self.start, self.end, step.progress)
        shift = draw_noise(step, radius)
        fixed = Mixture({name: value.detach() for name, value in step.mixture.items()})
        for _ in range(self.steps):
            at = add_shift(step.blocks, fixed, shift)
            gradients = _mixture_gradients(step, at, shift)
            shift = {
                name: (_moved(at[name], fixed[name], value) + 2 * radius / self.steps * gradients[name].sign()).clamp(
                    -radius, radius
                )
                for name, value in shift.items()
            }
        with torch.no_grad():
            rose = step.loss(add_shift(step.blocks, fixed, shift)) >= step.loss(fixed)
        return add_shift(step.blocks, step.mixture, shift) if rose else step.mixture


def _mixture_gradients(step: PerturbStep, at: Mixture, shift: Shift) -> Shift:
    """Return ∂L1/∂p summed over the cells of the shifted blocks, zero where nothing that is computed reads it."""
    leaves = {name: at[name].detach().requires_grad_() for name in shift}
    with torch.enable_grad():
        loss = step.loss(Mixture({**at, **leaves}))
        found = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True, materialize_grads=True)
    return {name: gradient.sum(0) for name, gradient in zip(leaves, found, strict=True)}


def _moved(at: Tensor, fixed: Tensor, shift: Tensor) -> Tensor:
    """Return how far a block's mixture has moved where all cells share one, and else the shift that they share."""
    moved = at - fixed
    return moved[0] if bool((moved == moved[:1]).all()) else shift
