"""The family of regularizers: terms added to a step of the search."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from archgrad.autodiff.tensors import Alpha, Mixture, MixtureGradients, Probabilities, Weights
from archgrad.parts.fields import check_fields
from archgrad.relaxations import DecidedRows, Relaxation
from archgrad.spaces import DecisionBlock, Genotype, SearchSpace
from archgrad.spaces.cost_model import NetworkShape
from archgrad.supernet import Modifier

__all__ = ["DecisionStep", "OuterStep", "PerturbStep", "Regularizer", "RegularizerState", "WeightStep"]

RegularizerState = dict[str, Tensor]
"""What a regularizer keeps from step to step, by name, on the CPU; a search saves it. Most keep nothing."""


@dataclass(frozen=True)
class OuterStep:
    """One evaluation of the outer loss, as a regularizer sees it.

    ``probabilities`` ``{block: [rows, choices]}`` and the supernet's ``mixture`` ``{block: [cells, rows, choices]}``
    are differentiable in α. ``block.mask`` marks the real choices. ``loss`` is L2 without regularizer terms; it is set,
    and twice differentiable in the mixture, for a regularizer that ``differentiates_outer_loss``. It belongs to
    ``epoch``, counted from 1, of ``epochs``.
    """

    blocks: Sequence[DecisionBlock]
    alpha: Alpha
    probabilities: Probabilities
    mixture: Mixture
    progress: float
    loss: Tensor | None = None
    epoch: int = 1
    epochs: int = 1


@dataclass(frozen=True)
class PerturbStep:
    """A weight step before its forward pass, as a regularizer that perturbs the mixture sees it.

    ``loss(mixture)`` evaluates the training loss of this batch with any mixture, at constant weights.
    """

    blocks: Sequence[DecisionBlock]
    mixture: Mixture
    loss: Callable[[Mixture], Tensor]
    progress: float
    generator: torch.Generator


@dataclass(frozen=True)
class WeightStep:
    """Weight step number ``index`` of the search, as a regularizer sees it; in ``epoch``, from 1, of ``epochs``.

    ``loss(w, mixture)`` evaluates the training loss of this batch at other weights or another mixture; for a
    regularizer that ``freezes_kinks``, with all kinks frozen as in the step itself. ``value`` is L1 and ``gradient``
    ∂L1/∂w. ``mixture_gradient`` holds ∂L1/∂p of every cell if the regularizer asked for it, as a function of the
    weights if it ``differentiates_gradient``. One that ``watches`` also has ``outer_gradient``, ∂L2/∂w from the step of
    the architecture just before, and the weights of all ``operations`` by their names.
    """

    loss: Callable[[Weights, Mixture], Tensor]
    blocks: Sequence[DecisionBlock]
    weights: Weights
    value: Tensor
    gradient: Weights
    mixture: Mixture
    mixture_gradient: MixtureGradients | None
    progress: float
    index: int
    epoch: int = 1
    epochs: int = 1
    outer_gradient: Weights = field(default_factory=lambda: Weights({}))
    operations: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class DecisionStep:
    """The end of ``epoch``, from 1, of ``epochs``: what a regularizer may decide by.

    ``probabilities`` ``{block: [rows, choices]}`` are those of α alone, also in rows that are ``decided``, where α has
    rested since.
    """

    blocks: Sequence[DecisionBlock]
    probabilities: Probabilities
    decided: DecidedRows
    epoch: int
    epochs: int


class Regularizer:
    """A term of a search step. Override any of its methods; by default each does nothing.

    ``progress`` runs from 0 to 1 over the search.
    """

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def needs_simplex(self) -> bool:
        """Whether the rows of the mixture must sum to one."""
        return False

    @property
    def needs_mixture_gradient(self) -> bool:
        """Whether it needs the gradient of every cell's mixture, from the weight step's backward pass."""
        return False

    @property
    def differentiates_gradient(self) -> bool:
        """Whether it differentiates that gradient by the weights."""
        return False

    @property
    def freezes_kinks(self) -> bool:
        """Whether the loss of the weight step must have its kinks frozen at the current mixture."""
        return False

    @property
    def adds_to_outer_loss(self) -> bool:
        """Whether it adds a term to the outer loss."""
        return type(self).outer_term is not Regularizer.outer_term

    @property
    def differentiates_outer_loss(self) -> bool:
        """Whether its term uses the gradient of the outer loss, which must then be twice differentiable."""
        return False

    @property
    def watches(self) -> bool:
        """Whether it compares the gradients of L1 and L2, to stop the training of operations: see :meth:`watch`."""
        return False

    @property
    def modifiers(self) -> tuple[Modifier, ...]:
        """Its modifiers of the supernet's forward pass."""
        return ()

    @property
    def aligns_cells(self) -> bool:
        """Whether it makes cells agree on their shared architecture, which usually prevents collapse."""
        return False

    @property
    def depends_on_size(self) -> bool:
        """Whether it depends on the size of the networks, so that it does not fit a search in stages of many sizes."""
        return False

    @property
    def measured(self) -> Any:
        """What :meth:`bound` has measured on this machine, as JSON can hold it; a run keeps it. None: nothing."""
        return None

    def bound(self, space: SearchSpace, shape: NetworkShape, measured: Any = None) -> Regularizer:
        """Return this term with what it needs to know of the networks; called once, before the search begins.

        ``measured`` is what :attr:`measured` was when a run began that now continues.
        """
        return self

    def exact(self) -> Regularizer:
        """Return the same term without differences of gradients, for networks whose kinks cannot be frozen."""
        return self

    def check(self, relaxation: Relaxation) -> None:
        """Raise a UserError, before any training, if it does not work with this relaxation."""
        return

    def check_blocks(self, blocks: Sequence[DecisionBlock]) -> None:
        """Raise a UserError, before any training, if it does not work with these blocks."""
        return

    def amend(self, genotype: Genotype, probabilities: Probabilities) -> Genotype:
        """Return the architecture to take in place of the derived one; by default that itself."""
        return genotype

    def outer_term(self, step: OuterStep) -> Tensor | None:
        """Return a scalar to add to the outer loss, differentiable in α."""
        return None

    def perturb(self, step: PerturbStep) -> Mixture:
        """Return the mixture for the weight step."""
        return step.mixture

    def weight_gradient(self, step: WeightStep) -> Weights | None:
        """Return a term to add to the gradient of the weights."""
        return None

    def init(self, operations: Sequence[str]) -> RegularizerState:
        """Return what it keeps before the first step, if it ``watches`` these operations."""
        return {}

    def watch(self, step: WeightStep, state: RegularizerState) -> tuple[RegularizerState, Collection[str]]:
        """Return what it keeps after a step, and the operations whose weights are trained no more, from this step on.

        It is called for each weight step that follows a step of the architecture, if it ``watches``.
        """
        return state, ()

    def decide(self, step: DecisionStep) -> DecidedRows:
        """Return the rows that are decided after an epoch; it may be asked again for the same epoch."""
        return step.decided
