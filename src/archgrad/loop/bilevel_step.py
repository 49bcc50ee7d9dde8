"""The bilevel problem of a search at one step."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from archgrad.autodiff.double_backward import TwiceDifferentiable
from archgrad.autodiff.gradients import detached_parameters, split_trained
from archgrad.autodiff.tensors import Alpha, Mixture, Weights
from archgrad.bilevel.descent import Descent, momentum_of
from archgrad.bilevel.problem import BilevelProblem, Evaluation
from archgrad.data import Batch
from archgrad.hypergradients import Batches, EvaluationPoint, evaluate_at
from archgrad.loop.state import PRODUCTS, SearchState, all_trusted
from archgrad.loop.supernet_losses import SupernetLosses
from archgrad.relaxations import Relaxed
from archgrad.system import random_streams
from archgrad.training.weight_training import WeightTraining

__all__ = ["BilevelStep", "EvaluatedBatch", "bilevel_step"]


class EvaluatedBatch(NamedTuple):
    """Loss, outputs and targets of one evaluation."""

    loss: Tensor
    outputs: Tensor
    targets: Tensor


@dataclass(frozen=True, eq=False)
class BilevelStep:
    """The bilevel problem of a search at one step: two losses, the trained weights, and how they descend.

    ``frozen`` are the weights that are not trained. ``descent`` is None if the others are not trained by SGD. ``noise``
    is that of the relaxation, the same in all evaluations. ``start`` is the random state before the first of them.
    """

    losses: SupernetLosses
    state: SearchState
    weights: Weights
    frozen: Weights
    descent: Descent | None
    noise: dict[str, Tensor] | None
    start: random_streams.SavedRandomState

    def at(self, alpha: Alpha, inner_batch: Batches, outer_batch: Batch) -> AbstractContextManager[EvaluationPoint]:
        """Open the evaluation point of this step with these batches."""
        return self._point(BilevelProblem(self._inner, self._outer, self._evaluate), alpha, inner_batch, outer_batch)

    def layers_at(self, inner_batch: Batches, outer_batch: Batch) -> AbstractContextManager[EvaluationPoint]:
        """Open the point of the same problem whose α is the mixture, a copy for every cell.

        Regularizers' terms of the outer loss have no part in it: they are of the α that all cells share.
        """
        with torch.no_grad():
            relaxed = self._relax(self.state.alpha)
        full = self.losses.in_full_precision()

        def inner(weights: Weights, mixture: Alpha, batch: Batch) -> Tensor:
            return full.inner(self._whole(weights), Relaxed(Mixture(mixture), relaxed.active), batch, self.state)[0]

        def outer(weights: Weights, mixture: Alpha, batch: Batch) -> Tensor:
            found = Relaxed(Mixture(mixture), relaxed.active)
            return self.losses.outer(self._whole(weights), found, batch, self.state)[0]

        return self._point(BilevelProblem(inner, outer), Alpha(relaxed.mixture), inner_batch, outer_batch)

    def measure(self, point: EvaluationPoint) -> EvaluatedBatch:
        """Return loss, outputs and targets of the outer loss at the weights: one measure for all hypergradients.

        Most hypergradients have evaluated it there. One that only looks ahead, such as second-order DARTS, costs one
        more forward pass.
        """
        if isinstance(point.measured, EvaluatedBatch):
            return point.measured
        with torch.no_grad(), self.start.replay():
            return self._forward(self.weights, self._relax(self.state.alpha), point.outer_batch)

    def _point(
        self, problem: BilevelProblem, alpha: Alpha, inner_batch: Batches, outer_batch: Batch
    ) -> AbstractContextManager[EvaluationPoint]:
        mislead = not all_trusted(self.state.trusted, PRODUCTS)
        draws = random_streams.generator(self.losses.seed, "hypergradient", self.state.index)
        return evaluate_at(problem, self.weights, alpha, inner_batch, outer_batch, self.descent, mislead, draws)

    def _inner(self, weights: Weights, alpha: Alpha, batch: Batch) -> Tensor:
        """Return L1 in 32 bit, because hypergradients differentiate it twice or take differences of its gradients."""
        return self.losses.in_full_precision().inner(self._whole(weights), self._relax(alpha), batch, self.state)[0]

    def _outer(self, weights: Weights, alpha: Alpha, batch: Batch) -> Tensor:
        return self._evaluate(weights, alpha, batch).loss

    def _evaluate(self, weights: Weights, alpha: Alpha, batch: Batch) -> Evaluation:
        """Return L2 with regularizers' terms, the mixture, and the batch evaluated without these terms."""
        relaxed = self._relax(alpha)
        with TwiceDifferentiable() if self._differentiates_twice else nullcontext():
            found = self._forward(weights, relaxed, batch)
        terms = self.losses.outer_terms(alpha, relaxed, self.state, found.loss)
        measured = EvaluatedBatch(found.loss.detach(), found.outputs.detach(), found.targets)
        return Evaluation(sum(terms, start=found.loss), relaxed.mixture, measured)

    def _forward(self, weights: Weights, relaxed: Relaxed, batch: Batch) -> EvaluatedBatch:
        """Return L2 without regularizers' terms; in 32 bit if one of them differentiates it."""
        losses = self.losses.in_full_precision() if self._differentiates_twice else self.losses
        return EvaluatedBatch(*losses.outer(self._whole(weights), relaxed, batch, self.state), batch.targets)

    @property
    def _differentiates_twice(self) -> bool:
        return any(part.differentiates_outer_loss for part in self.losses.method.regularizers)

    def _relax(self, alpha: Alpha) -> Relaxed:
        return self.losses.relax(alpha, self.noise, self.state)

    def _whole(self, weights: Weights) -> Weights:
        """Add the weights that are not trained, and copies of the buffers."""
        return Weights({**detached_parameters(self.state.supernet, self.frozen), **weights})


def bilevel_step(losses: SupernetLosses, training: WeightTraining, state: SearchState) -> BilevelStep:
    """Return the bilevel problem at the present state, as an architecture step sees it."""
    trained, frozen = split_trained(state.weights)
    noise, start = losses.noise(state, "architecture", state.index), random_streams.SavedRandomState(state.device)
    return BilevelStep(losses, state, trained, frozen, _descent(training, state, trained), noise, start)


def _descent(training: WeightTraining, state: SearchState, trained: Weights) -> Descent | None:
    """Return how the weights descend now, with their momentum; None if not by SGD."""
    if not training.is_sgd:
        return None
    lr, decay = training.lr_at(state.current_epoch), training.weight_decay_at(state.current_epoch)
    return Descent(lr, training.momentum, decay, training.nesterov, momentum_of(state.optimizer, trained))
