"""The steps of a search: one moves α, one the weights, one both."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from archgrad.autodiff.double_backward import TwiceDifferentiable
from archgrad.autodiff.frozen_activations import ActivationPattern, evaluate_frozen
from archgrad.autodiff.gradients import (
    backward,
    constants,
    detached_parameters,
    gradient_or_zero,
    gradients,
    leaves,
    split_trained,
)
from archgrad.autodiff.tensors import Alpha, Mixture, MixtureGradients, Weights
from archgrad.autodiff.vectors import norm as length_of
from archgrad.data import Batch
from archgrad.diagnostics import layer_gradients
from archgrad.discretizers import Tuning
from archgrad.hypergradients import Batches, Hypergradient, HypergradientState
from archgrad.loop.loaders import StepBatches
from archgrad.loop.losses import BilevelStep, SupernetLosses
from archgrad.loop.state import BatchMetrics, SearchState
from archgrad.loop.step_checks import (
    check_all_finite,
    check_finite,
    check_instance,
    check_like,
    reads_are_due,
)
from archgrad.method.bundle import Method
from archgrad.regularizers import Regularizer, WeightStep
from archgrad.relaxations import Relaxed
from archgrad.system import random_streams
from archgrad.training.weight_training import WeightTraining

__all__ = ["StepResult", "Stepper", "WeightPass", "added_gradient", "pass_in_parts", "pass_weights"]


class StepResult(NamedTuple):
    """The metrics of a step at w before it moved, and ∂L/∂p of every cell where that is the whole gradient of p.

    A step of the architecture also has ∂L2/∂w, if a regularizer watches it.
    """

    metrics: BatchMetrics
    mixture_gradients: MixtureGradients
    weight_gradient: Weights | None = None


@dataclass(frozen=True)
class Stepper:
    """Takes the steps of one method on one supernet."""

    losses: SupernetLosses
    weights: WeightTraining

    @property
    def method(self) -> Method:
        """The method whose steps these are."""
        return self.losses.method

    def uncompiled(self) -> Stepper:
        """Return the same steps without ``torch.compile``."""
        return replace(self, losses=replace(self.losses, forward=self.losses.plain))

    def in_full_precision(self) -> Stepper:
        """Return the same steps in 32 bit."""
        return replace(self, losses=self.losses.in_full_precision())

    def tuning(self, tuning: Tuning) -> Stepper:
        """Return the steps of a search that a discretizer continues, without regularizers."""
        method, rate = replace(self.method, regularizers=()), tuning.rate * self.weights.lr
        return Stepper(replace(self.losses, method=method), replace(self.weights, lr=rate, lr_min=rate))

    def architecture_step(self, state: SearchState, batches: StepBatches) -> StepResult:
        """Move the architecture: α ← optimizer(α, hypergradient)."""
        hypergradient = self.method.hypergradient
        step = self.bilevel_step(state)
        watched = any(part.watches for part in self.method.regularizers)
        with step.at(state.alpha, *self.batches(batches)) as point:
            point.keeps_weight_gradient = watched
            estimate = hypergradient.estimate(point, state.hypergradient_state)
            gradient, following = _checked_estimate(hypergradient, estimate, state.alpha)
            evaluated = step.measure(point)
            of_weights = point.of_weights() if watched else None
        metrics = self._metrics("arch", *evaluated, state)
        self._move_alpha(state, gradient, following)
        of_cells = _of_cells(point.mixture_gradients) if hypergradient.order == 1 else {}
        return StepResult(metrics, of_cells, of_weights)

    def batches(self, batches: StepBatches) -> tuple[Batches, Batch]:
        """Return the inner batches and the outer batch that the hypergradient reads."""
        return Batches(map(batches.inner, range(self.method.hypergradient.inner_batches))), batches.outer()

    def bilevel_step(self, state: SearchState) -> BilevelStep:
        """Return the bilevel problem at the present state, as an architecture step sees it."""
        return BilevelStep.of(self.losses, self.weights, state)

    def mixture_gradients(self, state: SearchState, batches: StepBatches) -> MixtureGradients:
        """Return dL2/dp of every cell by the method's hypergradient, where no step of the architecture gives it."""
        hypergradient = self.method.hypergradient
        with self.bilevel_step(state).layers_at(*self.batches(batches)) as point:
            found = layer_gradients(point, hypergradient, state.hypergradient_state)
            check_like(hypergradient, "estimate", found, point.alpha)
            return constants(found)

    def weight_step(self, state: SearchState, batch: Batch, outer_gradient: Weights | None = None) -> StepResult:
        """Move the weights: w ← optimizer(w, clip(∂L1/∂w + what regularizers add)).

        ``outer_gradient`` is ∂L2/∂w of the step of the architecture before, for regularizers that watch it.
        """
        with torch.no_grad():
            relaxed = self._perturbed(state.alpha, batch, state)
        return self._move_weights(state, relaxed, batch, outer_gradient=outer_gradient)

    def joint_step(self, state: SearchState, batch: Batch) -> StepResult:
        """Move the weights and the architecture, both by the gradient of the training loss at the same point.

        One backward pass gives ∂L1/∂w and the gradient of every cell's mixture, which is then pulled back to α.
        """
        alpha = leaves(state.alpha)
        relaxed = self._perturbed(alpha, batch, state)
        result = self._move_weights(state, relaxed, batch, joint=True)
        terms = [(relaxed.mixture[name] * gradient).sum() for name, gradient in result.mixture_gradients.items()]
        terms += self.losses.outer_terms(alpha, relaxed, state)
        (gradient,) = gradients(lambda: sum(terms[1:], start=terms[0]), alpha)
        self._move_alpha(state, gradient, state.hypergradient_state)
        return result

    def unperturbed(self, state: SearchState) -> Relaxed:
        """Return the mixture of a weight step before regularizers perturb it, as a constant."""
        with torch.no_grad():
            return self.losses.relax(state.alpha, self.losses.noise(state, "weights", state.index), state)

    def _perturbed(self, alpha: Alpha, batch: Batch, state: SearchState) -> Relaxed:
        """Return the mixture of a weight step after regularizers have perturbed it."""
        relaxed = self.losses.relax(alpha, self.losses.noise(state, "weights", state.index), state)
        return self.losses.perturb(relaxed, batch, state)

    def _move_alpha(self, state: SearchState, gradient: Alpha, following: HypergradientState) -> None:
        """Take a step of α."""
        optimizer = self.method.arch_optimizer
        what = f"the architecture gradient by {type(self.method.hypergradient).__name__} of"
        check_all_finite(what, gradient, state, "weights.lr, or what scales the hypergradient (its lr, eta),")
        moved = optimizer.step(state.alpha, gradient, state.arch_state)
        check_instance(optimizer, "step", moved, tuple)
        alpha, arch_state = moved
        check_like(optimizer, "step", alpha, state.alpha)
        what = f"the step of {type(optimizer).__name__} in the architecture parameters"
        check_all_finite(what, alpha, state, "its learning rate (arch_optimizer.lr, --alpha-budget)")
        state.alpha, state.arch_state = state.decided.resting(state.alpha, alpha), arch_state
        state.hypergradient_state = following

    def _move_weights(
        self,
        state: SearchState,
        relaxed: Relaxed,
        batch: Batch,
        joint: bool = False,
        outer_gradient: Weights | None = None,
    ) -> StepResult:
        """Take a step of the weights.

        The gradient of the mixture is computed where a regularizer reads it, and in a ``joint`` step, which moves the
        architecture too.
        """
        parts = self.losses.regularizers(state)
        with_mixture = joint or any(part.needs_mixture_gradient for part in parts)
        if self.weights.accumulate > 1:
            passed = pass_in_parts(self.losses, state, relaxed, batch, self.weights.accumulate)
        else:
            passed = pass_weights(self.losses, state, relaxed, batch, parts, with_mixture)
        if outer_gradient is not None:
            passed = _watched(passed, parts, outer_gradient)
        added = [(part, passed.weight_gradient(part)) for part in parts]
        for part, extra in added:
            if extra is not None:
                check_like(part, "weight_gradient", extra, passed.inputs, some=True)
                _add_gradient(passed.inputs, extra)
        norm = torch.nn.utils.clip_grad_norm_(passed.inputs.values(), self.weights.clip)
        loss = self.losses.task_loss(passed.outputs, batch.targets)
        metrics = self._metrics("train", loss, passed.outputs, batch.targets, state)
        if reads_are_due(state):
            _check_norm(norm.item(), added, state)
        for group in state.optimizer.param_groups:
            group["lr"] = self.weights.lr_at(state.epoch)
            if "weight_decay" in group:
                group["weight_decay"] = self.weights.weight_decay_at(state.epoch)
        state.optimizer.step()
        state.optimizer.zero_grad(set_to_none=True)
        if state.average is not None:
            state.average.update(state.supernet, state.index)
        return StepResult(metrics, {name: gradient.detach() for name, gradient in passed.mixture_gradients.items()})

    def _metrics(self, name: str, loss: Tensor, outputs: Tensor, targets: Tensor, state: SearchState) -> BatchMetrics:
        """Return loss and metrics of a batch; check the loss if this step reads the device."""
        if reads_are_due(state):
            check_finite(f"the {name} loss", loss.item(), state)
        return BatchMetrics(name, loss, self.losses.task.ratios(outputs, targets), len(targets))


def _watched(passed: WeightPass, parts: Sequence[Regularizer], outer_gradient: Weights) -> WeightPass:
    """Let regularizers watch a step; return it without the weights of operations that they stop."""
    state = passed.state
    for part in [part for part in parts if part.watches]:
        name, step = type(part).__name__, passed.seen_by(part, outer_gradient)
        state.watched[name], stopped = part.watch(step, state.watched[name])
        if stopped:
            state.rest({*state.resting, *stopped})
    inputs, _ = split_trained(passed.inputs)
    return replace(passed, inputs=inputs)


def _checked_estimate(part: Hypergradient, found: Any, alpha: Alpha) -> tuple[Alpha, HypergradientState]:
    """Return the gradient and the next state as constants; raise a UserError if the estimate returned anything else."""
    check_instance(part, "estimate", found, tuple)
    gradient, following = found
    check_like(part, "estimate", gradient, alpha)
    check_instance(part, "estimate", following, dict)
    for values in following.values():
        check_instance(part, "estimate", values, dict)
    return constants(gradient), {quantity: constants(values) for quantity, values in following.items()}


def _of_cells(gradients: MixtureGradients) -> MixtureGradients:
    """Return ``[cells, rows, choices]``: where each image has its own mixture, the sum over the images."""
    return {name: value if value.dim() == 3 else value.sum(1) for name, value in gradients.items()}


def _check_norm(norm: float, added: Sequence[tuple[Regularizer, Weights | None]], state: SearchState) -> None:
    """Raise a DivergedError if the gradient of the weights is not finite; name the regularizer that made it so."""
    culprits = (type(part).__name__ for part, extra in added if extra and not math.isfinite(length_of(extra)))
    culprit = None if math.isfinite(norm) else next(culprits, None)
    check_finite(f"the gradient of the weights{f' by {culprit}' if culprit else ''}", norm, state)


def _add_gradient(inputs: Weights, added: Weights) -> None:
    """Add to the gradient at the weights, not in place: regularizers may still read the old one."""
    for name, extra in added.items():
        gradient = inputs[name].grad
        inputs[name].grad = extra.detach().clone() if gradient is None else gradient + extra.detach()


@dataclass(frozen=True, eq=False)
class WeightPass:
    """The result of a forward and a backward pass of L1, and what evaluates L1 there again."""

    losses: SupernetLosses
    state: SearchState
    batch: Batch
    value: Tensor
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
        return part.weight_gradient(self.seen_by(part))

    def seen_by(self, part: Regularizer, outer_gradient: Weights | None = None) -> WeightStep:
        """Return the step as a regularizer sees it."""
        kinks, state = self.kinks if part.freezes_kinks else None, self.state

        def loss(weights: Weights, mixture: Mixture) -> Tensor:
            whole = Weights({**detached_parameters(state.supernet, state.weights), **weights})
            found = Relaxed(mixture, self.relaxed.active)
            with self.start.replay():
                return evaluate_frozen(kinks, lambda: self.losses.inner(whole, found, self.batch, state))[0]

        return WeightStep(
            loss, self.losses.blocks, self.inputs, self.value, self.gradient, self.relaxed.mixture,
            self.mixture_gradients or None, state.progress, state.index, state.current_epoch + 1, state.epochs,
            outer_gradient or Weights({}), state.operations if part.watches else {},
        )  # fmt: skip


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
    found = loss.detach(), outputs.detach()
    return WeightPass(losses, state, batch, *found, inputs, relaxed, mixture_gradients, kinks, start)


def pass_in_parts(losses: SupernetLosses, state: SearchState, relaxed: Relaxed, batch: Batch, parts: int) -> WeightPass:
    """Do the same in several parts of the batch, one after another, for less memory: ∂L1 = Σ Bᵢ/B · ∂L1(batch i).

    Batch norms normalize each part by itself.
    """
    inputs, _ = split_trained(state.weights)
    state.optimizer.zero_grad(set_to_none=True)
    start, outputs, value = random_streams.SavedRandomState(state.device), [], torch.zeros((), device=state.device)
    for images, targets in zip(batch.inputs.tensor_split(parts), batch.targets.tensor_split(parts), strict=True):
        loss, found = losses.inner(state.weights, relaxed, Batch(images, targets), state)
        part = loss * (len(targets) / len(batch.targets))
        backward(part, inputs, {})
        value = value + part.detach()
        outputs.append(found.detach())
    return WeightPass(losses, state, batch, value, torch.cat(outputs), inputs, relaxed, {}, None, start)


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
