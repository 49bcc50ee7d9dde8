"""Penalize the log-sum-exp of α, as in β-DARTS."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from archgrad.errors import UserError
from archgrad.parts.fields import NonNegative
from archgrad.regularizers.base import OuterStep, Regularizer
from archgrad.relaxations import Relaxation
from archgrad.spaces import DecisionBlock

__all__ = ["BetaDecay"]


@dataclass(frozen=True)
class BetaDecay(Regularizer):
    """Add progress · ``weight`` · mean over rows of log Σ exp α to L2 (β-DARTS; Ye et al., 2022).

    Its gradient is softmax(α) / rows; that of an L2 penalty would be α. So it reduces the largest entries most. The
    factor grows linearly from 0, as in the paper. Rows of operations and of edges count equally, as in the weight decay
    that this replaces. If each image has its own α, the term is also the mean over images.
    """

    weight: NonNegative = 50.0

    def check(self, relaxation: Relaxation) -> None:
        """Reject α on the simplex, which has no logits."""
        if relaxation.domain != "real":
            raise UserError(
                f"BetaDecay penalizes the log-sum-exp of logits, but {type(relaxation).__name__} keeps α in the "
                f"{relaxation.domain!r} domain; use a relaxation of the 'real' domain such as relaxations.Softmax(), "
                f"or leave BetaDecay out (--regularizer none)."
            )

    def outer_term(self, step: OuterStep) -> Tensor:
        """Return the weighted mean."""
        rows = [_log_sum_exp(step.alpha[block.name], block).flatten() for block in step.blocks]
        return step.progress * self.weight * torch.cat(rows).mean()


def _log_sum_exp(alpha: Tensor, block: DecisionBlock) -> Tensor:
    return alpha.masked_fill(~block.mask_on(alpha.device), -torch.inf).logsumexp(-1)
