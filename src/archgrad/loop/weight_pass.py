"""One forward and backward pass of the training loss, and what regularizers read of it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from archgrad.autodiff.double_backward import TwiceDifferentiable
from archgrad.autodiff.frozen_activations import ActivationPattern, evaluate_frozen
from archgrad.autodiff.gradients import backward, constants, detached_parameters, gradient_or_zero, split_trained
from archgrad.autodiff.tensors import Mixture, MixtureGradients, Weights
from archgrad.data import Batch
from archgrad.loop.state import SearchState
from archgrad.loop.supernet_losses import SupernetLosses
from archgrad.regularizers import Regularizer, WeightStep
from archgrad.relaxations import Relaxed
from archgrad.system import random_streams

__all__ = ["WeightPass", "added_gradient", "pass_in_parts", "pass_weights"]


@dataclass(frozen=True, eq=False)
class WeightPass:
    """The result of a forward and a backward pass of L1, and what evaluates L1 there again."""

    losses: SupernetLosses
    state: SearchState
    batch: Batch
    outputs: Tensor
    inputs: Weights
    relaxed: Relaxed
    mixture_gradients: MixtureGradients
    kinks: ActivationPattern | None
    start: random_streams.SavedRandomState

    @cached_property
    def gradient(self) -> Weights:
        """∂L1/∂w, before any regularizer has added to it."""
        return Weights({name: gradient_or_zero(weight.grad, weight) for name, weight in self.inputs.items()})

    def weight_gradient(self, part: Regularizer) -> Weights | None:
        """Return what a regularizer adds to ∂L1/∂w."""
        kinks, state = self.kinks if part.freezes_kinks else None, self.state

        def loss(weights: Weights, mixture: Mixture) -> Tensor:
            whole = Weights({**detached_parameters(state.supernet, state.weights), **weights})
            found = Relaxed(mixture, self.relaxed.active)
            with self.start.replay():
                return evaluate_frozen(kinks, lambda: self.losses.inner(whole, found, self.batch, state))[0]

        step = WeightStep(
            loss, self.losses.blocks, self.inputs, self.gradient, self.relaxed.mixture, self.mixture_gradients or None,
            state.progress, state.index, state.current_epoch + 1, state.epochs,
        )  # fmt: skip
        return part.weight_gradient(step)


def pass_weights(
    losses: SupernetLosses,
    state: SearchState,
    relaxed: Relaxed,
    batch: Batch,
    parts: Sequence[Regularizer],
    with_mixture: bool,
) -> WeightPass:
    """Evaluate L1 and leave its gradient at the weights; ``with_mixture`` takes that of the mixture too."""
    mixture = constants(relaxed.mixture)
    if with_mixture:
        mixture = Mixture({name: value.clone().requires_grad_() for name, value in mixture.items()})
    relaxed, weights = Relaxed(mixture, relaxed.active), state.weights
    inputs, _ = split_trained(weights)
    state.optimizer.zero_grad(set_to_none=True)
    twice = any(part.differentiates_gradient for part in parts)
    start = random_streams.SavedRandomState(state.device)
    kinks = ActivationPattern() if any(part.freezes_kinks for part in parts) else None
    if twice or any(part.needs_mixture_gradient for part in parts):  # a regularizer differentiates the gradient
        losses = losses.in_full_precision()
    with TwiceDifferentiable() if twice else nullcontext():
        loss, outputs = evaluate_frozen(kinks, lambda: losses.inner(weights, relaxed, batch, state))
    mixture_gradients = backward(loss, inputs, mixture if with_mixture else {}, twice)
    if kinks is not None:
        kinks.pack()
    # Detached, to release all that the backward pass has used.
    return WeightPass(losses, state, batch, outputs.detach(), inputs, relaxed, mixture_gradients, kinks, start)


def pass_in_parts(losses: SupernetLosses, state: SearchState, relaxed: Relaxed, batch: Batch, parts: int) -> WeightPass:
    """Do the same in several parts of the batch, one after another, for less memory: ∂L1 = Σ Bᵢ/B · ∂L1(batch i).

    Batch norms normalize each part by itself.
    """
    inputs, _ = split_trained(state.weights)
    state.optimizer.zero_grad(set_to_none=True)
    start, outputs = random_streams.SavedRandomState(state.device), []
    for images, targets in zip(batch.inputs.tensor_split(parts), batch.targets.tensor_split(parts), strict=True):
        loss, found = losses.inner(state.weights, relaxed, Batch(images, targets), state)
        backward(loss * (len(targets) / len(batch.targets)), inputs, {})
        outputs.append(found.detach())
    return WeightPass(losses, state, batch, torch.cat(outputs), inputs, relaxed, {}, None, start)


def added_gradient(
    losses: SupernetLosses, part: Regularizer, state: SearchState, batch: Batch, relaxed: Relaxed
) -> Weights | None:
    """Return what a regularizer would add to the gradient of the weights, and leave everything as it is."""
    with random_streams.SavedRandomState(state.device).replay():
        gradient = pass_weights(losses, state, relaxed, batch, (part,), part.needs_mixture_gradient).weight_gradient(
            part
        )
    state.optimizer.zero_grad(set_to_none=True)
    return gradient
