"""The family of regularisers: terms added to a step of the search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from archgrad.bilevel import Alpha, Weights
from archgrad.relaxations import Relaxation
from archgrad.spaces import DecisionBlock

__all__ = ["OuterStep", "Regularizer", "WeightStep"]


@dataclass(frozen=True)
class OuterStep:
    """What a regulariser may read of one evaluation of the outer loss.

    ``probabilities`` are what α says on average, ``{block: [rows, choices]}``, and ``mixture`` is what the supernet
    computed, ``{block: [cells, rows, choices]}``; both are differentiable in α. ``block.mask`` marks the choices that
    are real.
    """

    blocks: Sequence[DecisionBlock]
    alpha: Alpha
    probabilities: dict[str, Tensor]
    mixture: dict[str, Tensor]
    progress: float


@dataclass(frozen=True)
class WeightStep:
    """What a regulariser may read of one weight step.

    ``loss(w, mixture)`` evaluates the training loss of this batch again at other weights or another mixture;
    ``mixture_gradient`` holds ∂L1/∂p of every cell, if the regulariser asked for it.
    """

    loss: Callable[[Weights, dict[str, Tensor]], Tensor]
    weights: Weights
    mixture: dict[str, Tensor]
    mixture_gradient: dict[str, Tensor] | None
    progress: float


class Regularizer:
    """Override any of the three places where a term may enter; each does nothing by default.

    ``progress`` runs from 0 to 1 over the search. ``needs_mixture_gradient`` asks the weight step for the gradient of
    every cell's mixture, which comes out of the same backward pass.
    """

    needs_mixture_gradient: ClassVar[bool] = False

    def check(self, relaxation: Relaxation) -> None:
        """Raise a UserError, before anything is trained, if it means nothing for this relaxation."""
        return

    def outer_term(self, step: OuterStep) -> Tensor | None:
        """Return a scalar to add to the outer loss, differentiable in α."""
        return None

    def perturb(self, mixture: dict[str, Tensor], progress: float, generator: torch.Generator) -> dict[str, Tensor]:
        """Return the mixture that the weight step shall see."""
        return mixture

    def weight_gradient(self, step: WeightStep) -> Weights | None:
        """Return what to add to the gradient of the weights."""
        return None
