"""The worst nearby mixture of a weight step, as in SDARTS-ADV."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from archgrad.errors import check_number, check_whole
from archgrad.regularizers.base import PerturbStep, Regularizer
from archgrad.regularizers.random_perturbation import drawn, shifted
from archgrad.schedule import ramp

__all__ = ["AdversarialPerturbation"]


@dataclass(frozen=True)
class AdversarialPerturbation(Regularizer):
    """Train the weights at p + δ, where δ maximises L1 over ‖δ‖∞ ≤ ε (SDARTS-ADV; Chen & Hsieh, 2020).

    δ is sought by projected gradient ascent from a random point of the ball: ``steps`` times
    δ ← clip(δ + 2ε/``steps`` · sign(∂L1/∂δ), ±ε), each a forward and a backward pass on the batch of the weight step.
    ε grows linearly from ``start`` to ``end``. As in
    :class:`~archgrad.regularizers.RandomPerturbation` all cells of a block see one δ, whose gradient is the sum over
    them, and edge weights are left alone. It is a constant to α.
    """

    start: float = 0.03
    end: float = 0.3
    steps: int = 7

    def __post_init__(self) -> None:
        check_number("start of AdversarialPerturbation", self.start)
        check_number("end of AdversarialPerturbation", self.end)
        check_whole("steps of AdversarialPerturbation", self.steps)

    def perturb(self, step: PerturbStep) -> dict[str, Tensor]:
        """Add what the ascent found."""
        radius = ramp(self.start, self.end, step.progress)
        shift = drawn(step, radius)
        for _ in range(self.steps):
            slopes = _slopes(step, shift)
            uphill = {name: value + 2 * radius / self.steps * slopes[name].sign() for name, value in shift.items()}
            shift = {name: value.clamp(-radius, radius) for name, value in uphill.items()}
        return shifted(step.mixture, shift)


def _slopes(step: PerturbStep, shift: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return ∂L1/∂δ, zero where nothing that is computed reads it."""
    fixed = {name: value.detach() for name, value in step.mixture.items()}
    leaves = {name: value.detach().requires_grad_() for name, value in shift.items()}
    with torch.enable_grad():
        loss = step.loss(shifted(fixed, leaves))
        found = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True, materialize_grads=True)
    return dict(zip(leaves, found, strict=True))
