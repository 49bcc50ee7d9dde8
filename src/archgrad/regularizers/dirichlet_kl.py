"""Keep the Dirichlet distribution of a search near the uniform one, as in DrNAS."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from archgrad.errors import UserError
from archgrad.parts.fields import NonNegative
from archgrad.regularizers.base import OuterStep, Regularizer
from archgrad.relaxations import Dirichlet, Relaxation, concentration
from archgrad.spaces import DecisionBlock
from archgrad.system.devices import widened

__all__ = ["DirichletKL"]


@dataclass(frozen=True)
class DirichletKL(Regularizer):
    """Add ``weight`` · Σ over rows of KL(Dir(β) ‖ Dir(1)) to L2, with β = elu(α) + 1 (DrNAS; Chen et al., 2021).

    The sum is over all rows of all blocks of operations, because the distribution of an architecture is the product of
    those of its rows. Edge weights are not drawn and do not count.
    """

    weight: NonNegative = 1e-3

    def check(self, relaxation: Relaxation) -> None:
        """Reject a relaxation without a Dirichlet distribution."""
        if not isinstance(relaxation, Dirichlet):
            raise UserError(
                f"DirichletKL needs a Dirichlet distribution, but {type(relaxation).__name__} has none; "
                f"use relaxations.Dirichlet(), or leave DirichletKL out (--regularizer none)."
            )

    def outer_term(self, step: OuterStep) -> Tensor | None:
        """Return the weighted sum."""
        drawn = [block for block in step.blocks if block.kind == "operation"]
        sums = [_divergence(step.alpha[block.name], block).sum() for block in drawn]
        return self.weight * torch.stack(sums).sum() if sums else None


def _divergence(alpha: Tensor, block: DecisionBlock) -> Tensor:
    """Return KL(Dir(β) ‖ Dir(1)) of every row, in double precision because its terms almost cancel near β = 1.

    log Γ(Σβ) − Σ log Γ(β) − log Γ(K) + Σ (β − 1)·(ψ(β) − ψ(Σβ)), over the K choices of a row.
    """
    real = block.mask_on(alpha.device)
    beta = concentration(widened(alpha)).masked_fill(~real, 1.0)
    total = (beta * real).sum(-1, keepdim=True)
    pulls = (beta - 1) * (torch.digamma(beta) - torch.digamma(total))
    entries = (pulls - torch.lgamma(beta)).sum(-1)
    return (torch.lgamma(total).squeeze(-1) - torch.lgamma(widened(real.sum(-1))) + entries).to(alpha.dtype)
