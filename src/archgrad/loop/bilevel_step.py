"""The bilevel problem of a search at one step."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from archgrad.autodiff.double_backward import TwiceDifferentiable
from archgrad.autodiff.gradients import detached_parameters, record_gradients, split_trained
from archgrad.autodiff.tensors import Alpha, Mixture, MixtureGradients, Weights
from archgrad.bilevel.descent import Descent, momentum_of
from archgrad.bilevel.problem import BilevelProblem
from archgrad.data import Batch
from archgrad.hypergradients import Batches, EvaluationPoint, evaluate_at
from archgrad.loop.state import PRODUCTS, SearchState, all_trusted
from archgrad.loop.supernet_losses import SupernetLosses
from archgrad.relaxations import Relaxed
from archgrad.system import random_streams
from archgrad.training.weight_training import WeightTraining

__all__ = ["BilevelStep", "EvaluatedBatch", "bilevel_step", "layer_point"]


class EvaluatedBatch(NamedTuple):
    """Loss, outputs and targets of one evaluation."""

    loss: Tensor
    outputs: Tensor
    targets: Tensor


@dataclass(frozen=True, eq=False)
class BilevelStep:
    """The bilevel problem of a search at one step: two losses, the trained weights, and how they descend.

    ``descent`` is None if they are not trained by SGD.

    ``evaluated`` holds the first evaluation of the outer loss at the weights themselves, once there was one.
    ``evaluate`` repeats that evaluation. ``mixture_gradients`` holds the gradient of every cell's mixture in the first
    evaluation.
    """

    problem: BilevelProblem
    weights: Weights
    descent: Descent | None
    evaluated: list[EvaluatedBatch]
    mixture_gradients: MixtureGradients
    differences_mislead: bool
    evaluate: Callable[[Batch], EvaluatedBatch]

    def at(self, alpha: Alpha, inner_batch: Batches, outer_batch: Batch) -> AbstractContextManager[EvaluationPoint]:
        """Open the evaluation point of this step with these batches."""
        exact = self.differences_mislead
        return evaluate_at(self.problem, self.weights, alpha, inner_batch, outer_batch, self.descent, exact)

    def measure(self, batch: Batch) -> EvaluatedBatch:
        """Return loss, outputs and targets of the outer loss at the weights: one measure for all hypergradients.

        Most hypergradients have evaluated it there. One that only looks ahead, such as second-order DARTS, costs one
        more forward pass.
        """
        return self.evaluated[0] if self.evaluated else self.evaluate(batch)


def bilevel_step(losses: SupernetLosses, training: WeightTraining, state: SearchState) -> BilevelStep:
    """Return the bilevel problem at the present state, as an architecture step sees it.

    The inner loss is in 32 bit, because hypergradients differentiate it twice or take differences of its gradients.
    """
    noise = losses.noise(state, "architecture", state.index)
    trained, frozen = split_trained(state.weights)
    evaluated: list[EvaluatedBatch] = []
    mixture_gradients: MixtureGradients = {}
    start = random_streams.SavedRandomState(state.device)
    twice = any(part.differentiates_outer_loss for part in losses.method.regularizers)
    full = losses.in_full_precision()
    once = full if twice else losses

    whole = partial(_whole, state, frozen)

    def inner(weights: Weights, alpha: Alpha, batch: Batch) -> Tensor:
        return full.inner(whole(weights), losses.relax(alpha, noise, state), batch, state)[0]

    def outer(weights: Weights, alpha: Alpha, batch: Batch) -> Tensor:
        relaxed = losses.relax(alpha, noise, state)
        with TwiceDifferentiable() if twice else nullcontext():
            loss, outputs = once.outer(whole(weights), relaxed, batch, state)
        if not evaluated and _same(weights, trained):
            evaluated.append(EvaluatedBatch(loss.detach(), outputs.detach(), batch.targets))
        if not mixture_gradients:
            record_gradients(relaxed.mixture, mixture_gradients)
        return sum(losses.outer_terms(alpha, relaxed, state, loss), start=loss)

    def evaluate(batch: Batch) -> EvaluatedBatch:
        with torch.no_grad(), start.replay():
            loss, outputs = once.outer(whole(trained), losses.relax(state.alpha, noise, state), batch, state)
        return EvaluatedBatch(loss, outputs, batch.targets)

    problem, mislead = BilevelProblem(inner, outer), not all_trusted(state.trusted, PRODUCTS)
    descent = _descent(training, state, trained)
    return BilevelStep(problem, trained, descent, evaluated, mixture_gradients, mislead, evaluate)


def layer_point(
    losses: SupernetLosses, training: WeightTraining, state: SearchState, inner_batch: Batches, outer_batch: Batch
) -> AbstractContextManager[EvaluationPoint]:
    """Open the point of the same problem whose α is the mixture, a copy for every cell.

    Regularizers' terms of the outer loss have no part in it: they are of the α that all cells share.
    """
    noise = losses.noise(state, "architecture", state.index)
    with torch.no_grad():
        relaxed = losses.relax(state.alpha, noise, state)
    trained, frozen = split_trained(state.weights)
    whole, full = partial(_whole, state, frozen), losses.in_full_precision()

    def inner(weights: Weights, mixture: Alpha, batch: Batch) -> Tensor:
        return full.inner(whole(weights), Relaxed(Mixture(mixture), relaxed.active), batch, state)[0]

    def outer(weights: Weights, mixture: Alpha, batch: Batch) -> Tensor:
        return losses.outer(whole(weights), Relaxed(Mixture(mixture), relaxed.active), batch, state)[0]

    problem, mislead = BilevelProblem(inner, outer), not all_trusted(state.trusted, PRODUCTS)
    descent, mixture = _descent(training, state, trained), Alpha(relaxed.mixture)
    return evaluate_at(problem, trained, mixture, inner_batch, outer_batch, descent, mislead)


def _whole(state: SearchState, frozen: Weights, weights: Weights) -> Weights:
    """Add the weights that are not trained, and copies of the buffers."""
    return Weights({**detached_parameters(state.supernet, frozen), **weights})


def _descent(training: WeightTraining, state: SearchState, trained: Weights) -> Descent | None:
    """Return how the weights descend now, with their momentum; None if not by SGD."""
    if not training.is_sgd:
        return None
    lr, decay = training.lr_at(state.current_epoch), training.weight_decay_at(state.current_epoch)
    return Descent(lr, training.momentum, decay, training.nesterov, momentum_of(state.optimizer, trained))


def _same(weights: Weights, trained: Weights) -> bool:
    """Tell whether these are the trained weights themselves, not those of a virtual step or a difference."""
    return all(weights[name].data_ptr() == weight.data_ptr() for name, weight in trained.items())
