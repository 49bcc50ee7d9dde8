"""Push the weights of operations to 0 or 1, as in FairDARTS."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from archgrad.errors import UserError
from archgrad.parts.fields import NonNegative
from archgrad.regularizers.base import OuterStep, Regularizer
from archgrad.relaxations import Relaxation

__all__ = ["ZeroOne"]


@dataclass(frozen=True)
class ZeroOne(Regularizer):
    """Add −``weight`` · mean over all choices of (p − ½)² to L2 (FairDARTS; Chu et al., 2020).

    It is least where every weight is 0 or 1. On the simplex a row of k even weights would count as almost decided, so
    it needs a relaxation whose rows do not sum to one. If each image has its own α, the mean is also over images.
    """

    weight: NonNegative = 10.0

    def check(self, relaxation: Relaxation) -> None:
        """Reject rows that sum to one."""
        if relaxation.on_simplex:
            raise UserError(
                f"ZeroOne moves each weight away from ½, but the rows of {type(relaxation).__name__} sum to one, so "
                f"even mixtures are far from ½; use relaxations.Sigmoid(), or leave ZeroOne out (--regularizer none)."
            )

    def outer_term(self, step: OuterStep) -> Tensor:
        """Return the weighted mean."""
        real = [
            step.probabilities[block.name][..., block.mask_on(step.probabilities[block.name].device)]
            for block in step.blocks
        ]
        return -self.weight * torch.cat([one.flatten() for one in real]).sub(0.5).square().mean()
