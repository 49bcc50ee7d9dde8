"""The family of regularizers: terms added to a step of the search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from archgrad.relaxations import Relaxation
from archgrad.spaces import DecisionBlock
from archgrad.supernet import Modifier
from archgrad.tensors import Alpha, Mixture, MixtureGradients, Probabilities, Weights

__all__ = ["OuterStep", "PerturbStep", "Regularizer", "WeightStep"]


@dataclass(frozen=True)
class OuterStep:
    """What a regularizer may read of one evaluation of the outer loss.

    ``probabilities`` are what α says on average, ``{block: [rows, choices]}``, and ``mixture`` is what the supernet
    computed, ``{block: [cells, rows, choices]}``; both are differentiable in α. ``block.mask`` marks the choices that
    are real. ``loss`` is L2 without any regularizer's term, for those that differentiate it by the mixture; only who
    ``differentiates_outer_loss`` may count on it, and on second derivatives.
    """

    blocks: Sequence[DecisionBlock]
    alpha: Alpha
    probabilities: Probabilities
    mixture: Mixture
    progress: float
    loss: Tensor | None = None


@dataclass(frozen=True)
class PerturbStep:
    """What a regularizer may read to perturb the mixture of a weight step.

    ``loss(mixture)`` evaluates the training loss of this batch with any mixture, at the weights as constants.
    """

    blocks: Sequence[DecisionBlock]
    mixture: Mixture
    loss: Callable[[Mixture], Tensor]
    progress: float
    generator: torch.Generator


@dataclass(frozen=True)
class WeightStep:
    """What a regularizer may read of one weight step, the search's ``index``-th.

    ``loss(w, mixture)`` evaluates the training loss of this batch again at other weights or another mixture; for one
    that ``freezes_kinks`` with every kink on the side where it was in the step itself.
    ``gradient`` is ∂L1/∂w, and ``mixture_gradient`` holds ∂L1/∂p of every cell, if the regularizer asked for it: a
    function of the weights for one that ``differentiates_gradient``.
    """

    loss: Callable[[Weights, Mixture], Tensor]
    blocks: Sequence[DecisionBlock]
    weights: Weights
    gradient: Weights
    mixture: Mixture
    mixture_gradient: MixtureGradients | None
    progress: float
    index: int


class Regularizer:
    """Override any of the four places where a term may enter; each does nothing by default.

    ``progress`` runs from 0 to 1 over the search.
    """

    @property
    def needs_mixture_gradient(self) -> bool:
        """Whether the weight step shall give the gradient of every cell's mixture, from the same backward pass."""
        return False

    @property
    def differentiates_gradient(self) -> bool:
        """Whether that gradient shall be a function of the weights, to be differentiated once more."""
        return False

    @property
    def freezes_kinks(self) -> bool:
        """Whether the loss of the weight step shall be the smooth function that it is around the present mixture."""
        return False

    @property
    def adds_to_outer_loss(self) -> bool:
        """Whether it has a term of the outer loss."""
        return type(self).outer_term is not Regularizer.outer_term

    @property
    def differentiates_outer_loss(self) -> bool:
        """Whether the outer loss shall be differentiable twice, for a term made of its gradient."""
        return False

    @property
    def modifiers(self) -> tuple[Modifier, ...]:
        """What it changes in the supernet's forward pass."""
        return ()

    @property
    def aligns_cells(self) -> bool:
        """Whether it makes the cells agree on the architecture they share, which usually cures a collapse."""
        return False

    def exact(self) -> Regularizer:
        """Return the same term without differences of gradients, for a network whose kinks cannot be frozen."""
        return self

    def check(self, relaxation: Relaxation) -> None:
        """Raise a UserError, before anything is trained, if it means nothing for this relaxation."""
        return

    def check_blocks(self, blocks: Sequence[DecisionBlock]) -> None:
        """Raise a UserError, before anything is trained, if it means nothing for a space of these blocks."""
        return

    def outer_term(self, step: OuterStep) -> Tensor | None:
        """Return a scalar to add to the outer loss, differentiable in α."""
        return None

    def perturb(self, step: PerturbStep) -> Mixture:
        """Return the mixture that the weight step shall see."""
        return step.mixture

    def weight_gradient(self, step: WeightStep) -> Weights | None:
        """Return what to add to the gradient of the weights."""
        return None
