"""The two steps of a search: one moves α, the other the weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import functional_call

from archgrad import random_streams
from archgrad.autodiff.double_backward import TwiceDifferentiable
from archgrad.autodiff.frozen_activations import ActivationPattern, evaluate_frozen
from archgrad.autodiff.gradients import (
    backward,
    constants,
    detached_parameters,
    gradient_or_zero,
    gradients,
    leaves,
    record_gradients,
    split_trained,
)
from archgrad.bilevel import BilevelProblem
from archgrad.data import Batch, Loader
from archgrad.descent import Descent, momentum_of
from archgrad.discretizers import Tuning
from archgrad.errors import DivergedError
from archgrad.hypergradients import Batches
from archgrad.loop.bilevel_step import BilevelStep, Seen
from archgrad.loop.decided import Decided
from archgrad.loop.state import PRODUCTS, BatchMetrics, MetricSums, SearchState, all_trusted
from archgrad.loop.step_batches import StepBatches
from archgrad.method import Method
from archgrad.regularizers import OuterStep, PerturbStep, Regularizer, WeightStep
from archgrad.relaxations import Relaxed
from archgrad.spaces import DecisionBlock, SearchSpace
from archgrad.supernet import Modifier, Purpose, SearchTime, SupernetOptions, merge_arguments
from archgrad.tensors import Alpha, Mixture, MixtureGradients, Weights
from archgrad.training import WeightTraining

__all__ = ["StepResult", "Stepper"]


Forward = Callable[..., Any]
"""(weights, images, mixture, …) → logits, or two of them with the auxiliary head."""


class StepResult(NamedTuple):
    """What a step measured at w before it moved, and ∂L/∂p of every cell where that was computed."""

    metrics: BatchMetrics
    mixture_gradients: MixtureGradients


@dataclass(frozen=True)
class Stepper:
    """Takes steps of one method on one supernet.

    All randomness of a step comes from streams named by the run's seed and the step's number.
    """

    space: SearchSpace
    options: SupernetOptions
    method: Method
    training: WeightTraining
    seed: int
    forward: Forward
    plain: Forward
    decided: Decided | None = None

    @classmethod
    def of(
        cls,
        space: SearchSpace,
        options: SupernetOptions,
        method: Method,
        training: WeightTraining,
        seed: int,
        supernet: torch.nn.Module,
        compile_: bool,
    ) -> Stepper:
        """Build the stepper; ``compile_`` runs the supernet through ``torch.compile``, but not ``plain``."""

        def forward(weights: Weights, images: Tensor, mixture: Mixture, **extra: object) -> Any:
            return functional_call(supernet, weights, (images, mixture), extra)

        return cls(space, options, method, training, seed, torch.compile(forward) if compile_ else forward, forward)

    @cached_property
    def blocks(self) -> tuple[DecisionBlock, ...]:
        """All blocks that have architecture parameters."""
        return self.space.searched_blocks(self.options)

    @cached_property
    def modifiers(self) -> tuple[Modifier, ...]:
        """What changes the supernet's forward pass: by its options, and by the method's regularizers."""
        return (*self.options.modifiers, *self.method.modifiers)

    def architecture_step(self, state: SearchState, batches: StepBatches) -> StepResult:
        """Move the architecture: α ← optimiser(α, hypergradient)."""
        hypergradient = self.method.hypergradient
        step = self.bilevel_step(state)
        inner_batch, outer_batch = Batches(map(batches.inner, range(hypergradient.inner_batches))), batches.outer()
        with step.at(state.alpha, inner_batch, outer_batch) as point:
            gradient = constants(hypergradient.estimate(point))
            seen = step.measured(outer_batch)
        metrics = _metrics("valid" if self.method.schedule.level == "bilevel" else "arch", *seen, state)
        self._move(state, gradient)
        return StepResult(metrics, step.mixture_gradients)

    def bilevel_step(self, state: SearchState) -> BilevelStep:
        """Return the bilevel problem that the search stands at, as an architecture step sees it."""
        noise = self._noise(state, "architecture")
        trained, frozen = split_trained(state.weights)
        seen: list[Seen] = []
        mixture_gradients: MixtureGradients = {}
        start = random_streams.SavedRandomState(state.device)
        twice = any(part.differentiates_outer_loss for part in self.method.regularizers)

        def whole(weights: Weights) -> Weights:
            """Add what is not trained."""
            return Weights({**detached_parameters(state.supernet, frozen), **weights})

        def inner(weights: Weights, alpha: Alpha, batch: Batch) -> Tensor:
            return self._training_loss(whole(weights), self._relax(alpha, noise, state), batch, state)[0]

        def outer(weights: Weights, alpha: Alpha, batch: Batch) -> Tensor:
            relaxed = self._relax(alpha, noise, state)
            with TwiceDifferentiable() if twice else nullcontext():
                loss, logits = self._loss(whole(weights), relaxed, batch, state)
            if not seen and _same(weights, trained):
                seen.append((loss.detach(), logits.detach(), batch.labels))
            if not mixture_gradients:
                record_gradients(relaxed.mixture, mixture_gradients)
            return sum(self._outer_terms(alpha, relaxed, state, loss), start=loss)

        def look(batch: Batch) -> Seen:
            with torch.no_grad(), start.replay():
                loss, logits = self._loss(whole(trained), self._relax(state.alpha, noise, state), batch, state)
            return loss, logits, batch.labels

        problem, mislead = BilevelProblem(inner, outer), not all_trusted(state.trusted, PRODUCTS)
        return BilevelStep(problem, trained, self._descent(state, trained), seen, mixture_gradients, mislead, look)

    def mixture_gradients(self, state: SearchState, batch: Batch) -> MixtureGradients:
        """Return ∂L2/∂p of every cell, of a step that does not move the architecture."""
        with torch.no_grad():
            relaxed = self._relax(state.alpha, self._noise(state, "architecture"), state)
        mixture, weights = leaves(relaxed.mixture), detached_parameters(state.supernet, state.weights)
        with random_streams.SavedRandomState(state.device).replay():
            (found,) = gradients(
                lambda: self._loss(weights, Relaxed(mixture, relaxed.active), batch, state)[0], mixture
            )
        return found

    def weight_step(self, state: SearchState, batch: Batch) -> StepResult:
        """Move the weights: w ← SGD(w, clipped gradient of the training loss + what regularisers add)."""
        with torch.no_grad():
            relaxed = self._seen_by_weights(state.alpha, batch, state)
        return self._descend(state, relaxed, batch)

    def tuning(self, tuning: Tuning) -> Stepper:
        """Return what goes on with a search of which a part is decided, without regularisers."""
        method = replace(self.method, regularizers=())
        rate = tuning.rate * self.training.lr
        return replace(
            self, method=method, training=replace(self.training, lr=rate, lr_min=rate), decided=Decided.of(tuning)
        )

    def joint_step(self, state: SearchState, batch: Batch) -> StepResult:
        """Move the weights and the architecture, both by the gradient of the training loss at the same point.

        One backward pass gives ∂L1/∂w and the gradient of every cell's mixture, which is then pulled back to α.
        """
        alpha = leaves(state.alpha)
        relaxed = self._seen_by_weights(alpha, batch, state)
        result = self._descend(state, relaxed, batch, joint=True)
        terms = [(relaxed.mixture[name] * gradient).sum() for name, gradient in result.mixture_gradients.items()]
        terms += self._outer_terms(alpha, relaxed, state)
        (gradient,) = gradients(lambda: sum(terms[1:], start=terms[0]), alpha)
        self._move(state, gradient)
        return result

    def _move(self, state: SearchState, gradient: Alpha) -> None:
        _check_gradient(gradient, state)
        state.alpha, state.arch_state = self.method.arch_optimizer.step(state.alpha, gradient, state.arch_state)

    def relaxed(self, state: SearchState) -> Relaxed:
        """Return the mixture of a weight step as it is before regularisers perturb it, as a constant."""
        with torch.no_grad():
            return self._relax(state.alpha, self._noise(state, "weights"), state)

    def _seen_by_weights(self, alpha: Alpha, batch: Batch, state: SearchState) -> Relaxed:
        """Return the mixture of a weight step, as regularisers perturb it."""
        relaxed = self._relax(alpha, self._noise(state, "weights"), state)
        return self._perturbed(relaxed, batch, state)

    def _descend(self, state: SearchState, relaxed: Relaxed, batch: Batch, joint: bool = False) -> StepResult:
        """Take a step of the weights.

        The gradient of the mixture is computed where a regulariser reads it, or the step is ``joint`` and moves the
        architecture too.
        """
        parts = self.regularizers(state)
        passed = self._passed(state, relaxed, batch, parts, joint or any(part.needs_mixture_gradient for part in parts))
        for part in parts:
            _add_gradient(passed.inputs, part.weight_gradient(self._step_of(part, passed, state, batch)))
        norm = torch.nn.utils.clip_grad_norm_(passed.inputs.values(), self.training.clip)
        loss = F.cross_entropy(passed.logits, batch.labels)
        metrics = _metrics("train", loss, passed.logits, batch.labels, state)
        if not math.isfinite(norm.item()):
            raise DivergedError(_diverged("the gradient of the weights", norm.item(), state.epoch, state.step + 1))
        for group in state.optimizer.param_groups:
            group["lr"] = self.training.lr_at(state.epoch)
            group["weight_decay"] = self.training.weight_decay_at(state.epoch)
        state.optimizer.step()
        state.optimizer.zero_grad(set_to_none=True)
        return StepResult(metrics, {name: gradient.detach() for name, gradient in passed.mixture_gradients.items()})

    def regularizers(self, state: SearchState) -> tuple[Regularizer, ...]:
        """Return the regularisers of the method, without differences of gradients that mislead in this search."""
        return tuple(
            part if state.trusted.get(type(part).__name__, True) else part.exact() for part in self.method.regularizers
        )

    def added_gradient(self, part: Regularizer, state: SearchState, relaxed: Relaxed, batch: Batch) -> Weights | None:
        """Return what a regulariser would add to the gradient of the weights, and leave everything as it is."""
        with random_streams.SavedRandomState(state.device).replay():
            passed = self._passed(state, relaxed, batch, (part,), part.needs_mixture_gradient)
            gradient = part.weight_gradient(self._step_of(part, passed, state, batch))
        state.optimizer.zero_grad(set_to_none=True)
        return gradient

    def _passed(
        self, state: SearchState, relaxed: Relaxed, batch: Batch, parts: Sequence[Regularizer], wanted: bool
    ) -> _Passed:
        """Evaluate L1 and leave its gradient at the weights; take that of the mixture too if it is ``wanted``."""
        mixture = constants(relaxed.mixture)
        if wanted:
            mixture = Mixture({name: value.clone().requires_grad_() for name, value in mixture.items()})
        relaxed, weights = Relaxed(mixture, relaxed.active), state.weights
        inputs, _ = split_trained(weights)
        state.optimizer.zero_grad(set_to_none=True)
        twice = any(part.differentiates_gradient for part in parts)
        start = random_streams.SavedRandomState(state.device)
        kinks = ActivationPattern() if any(part.freezes_kinks for part in parts) else None
        with TwiceDifferentiable() if twice else nullcontext():
            loss, logits = evaluate_frozen(kinks, lambda: self._training_loss(weights, relaxed, batch, state))
        mixture_gradients = backward(loss, inputs, mixture if wanted else {}, twice)
        if kinks is not None:
            kinks.pack()
        # Detached, to let go of all that the backward pass has used.
        return _Passed(logits.detach(), inputs, relaxed, mixture_gradients, kinks, start)

    def check(self, state: SearchState) -> None:
        """Raise a DivergedError if the last step left weights or architecture parameters that are not finite."""
        for kind, values in (("the weights", state.weights), ("the architecture parameters", state.alpha)):
            for name, value in values.items():
                if not bool(torch.isfinite(value).all()):
                    raise DivergedError(_diverged(f"{kind} {name!r}", "not finite", state.epoch, state.step))

    def _step_of(self, part: Regularizer, passed: _Passed, state: SearchState, batch: Batch) -> WeightStep:
        """Return what a regulariser may read of a weight step whose gradient of L1 is there."""
        kinks = passed.kinks if part.freezes_kinks else None

        def loss(weights: Weights, mixture: Mixture) -> Tensor:
            whole = Weights({**detached_parameters(state.supernet, state.weights), **weights})
            found = Relaxed(mixture, passed.relaxed.active)
            with passed.start.replay():
                return evaluate_frozen(kinks, lambda: self._training_loss(whole, found, batch, state))[0]

        return WeightStep(
            loss,
            self.blocks,
            passed.inputs,
            passed.gradient,
            passed.relaxed.mixture,
            passed.mixture_gradients or None,
            state.progress,
            state.index,
        )

    def _relax(self, alpha: Alpha, noise: dict[str, Tensor] | None, state: SearchState) -> Relaxed:
        relaxed = self.method.relaxation.relax(self.blocks, alpha, noise, state.progress)
        return relaxed if self.decided is None else self.decided.put_into(relaxed)

    def _outer_terms(
        self, alpha: Alpha, relaxed: Relaxed, state: SearchState, loss: Tensor | None = None
    ) -> list[Tensor]:
        """Return what regularisers add to the outer loss."""
        if not self.method.regularizers:
            return []
        blocks = self.blocks
        probabilities = self.method.relaxation.probabilities(blocks, alpha)
        step = OuterStep(blocks, alpha, probabilities, relaxed.mixture, state.progress, loss)
        terms = (part.outer_term(step) for part in self.method.regularizers)
        return [term for term in terms if term is not None]

    def _noise(self, state: SearchState, purpose: str) -> dict[str, Tensor] | None:
        return self._draw(state, purpose, state.index)

    def _draw(self, state: SearchState, *stream: int | str) -> dict[str, Tensor] | None:
        """Draw what the relaxation needs, None if that is nothing."""
        generator = random_streams.generator(self.seed, "relaxation", *stream)
        noise = self.method.relaxation.noise(self.blocks, generator)
        return noise and {name: value.to(state.device) for name, value in noise.items()}

    def _perturbed(self, relaxed: Relaxed, batch: Batch, state: SearchState) -> Relaxed:
        start = random_streams.SavedRandomState(state.device)

        def loss(mixture: Mixture) -> Tensor:
            weights, found = detached_parameters(state.supernet, state.weights), Relaxed(mixture, relaxed.active)
            with torch.enable_grad(), start.replay():
                return self._training_loss(weights, found, batch, state)[0]

        mixture = relaxed.mixture
        for position, part in enumerate(self.method.regularizers):
            stream = random_streams.generator(self.seed, "perturb", position, state.index)
            mixture = part.perturb(PerturbStep(self.blocks, mixture, loss, state.progress, stream))
        return Relaxed(mixture, relaxed.active)

    def _loss(
        self,
        weights: Weights,
        relaxed: Relaxed,
        batch: Batch,
        state: SearchState,
        purpose: Purpose = "architecture",
    ) -> tuple[Tensor, Tensor]:
        """Return L2 and the logits, or L1 for the purpose of training, with what modifiers add to it."""
        seed, extra = random_streams.seed_of(self.seed, "supernet", state.index), self._modified(state, purpose)
        output = self.forward(weights, batch.images, relaxed.mixture, active=relaxed.active, seed=seed, **extra)
        logits, *further = output if isinstance(output, tuple) else (output,)
        terms = [modifier.loss_term(further, batch.labels) for modifier in self.modifiers if further]
        loss = F.cross_entropy(logits, batch.labels)
        return sum((term for term in terms if term is not None), start=loss), logits

    def _training_loss(
        self, weights: Weights, relaxed: Relaxed, batch: Batch, state: SearchState
    ) -> tuple[Tensor, Tensor]:
        return self._loss(weights, relaxed, batch, state, "training")

    def _modified(self, state: SearchState, purpose: Purpose) -> dict[str, Any]:
        """Return what modifiers give to the supernet's forward pass now."""
        warmup = self.method.schedule.warmup_epochs
        time = SearchTime(state.current_epoch, state.epochs, warmup, state.progress)
        return merge_arguments(self.modifiers, purpose, time)

    def _descent(self, state: SearchState, trained: Weights) -> Descent:
        """Return how the weights descend now, with the momentum they have."""
        settings = self.training
        lr, decay = settings.lr_at(state.current_epoch), settings.weight_decay_at(state.current_epoch)
        return Descent(lr, settings.momentum, decay, settings.nesterov, momentum_of(state.optimizer, trained))

    def held_out(self, state: SearchState, loader: Loader) -> dict[str, float]:
        """Measure loss and accuracy in per cent on images that did not train the weights, as they are.

        ``heldout_chance`` is the accuracy of naming the most common class each time.
        The network is that of the architecture step, with a mixture drawn for each batch where the relaxation samples.
        """
        sums, weights, labels = MetricSums(), detached_parameters(state.supernet, state.weights), []
        for number in range(loader.steps):
            batch, stream = loader.batch(number), ("held-out", state.epoch, number)
            with torch.no_grad(), random_streams.SavedRandomState(state.device).replay():
                relaxed = self._relax(state.alpha, self._draw(state, *stream), state)
                seed = random_streams.seed_of(self.seed, "supernet", *stream)
                extra = self._modified(state, "evaluation")
                logits = self.plain(weights, batch.images, relaxed.mixture, active=relaxed.active, seed=seed, **extra)
            loss = F.cross_entropy(logits, batch.labels).item()
            correct = int((logits.argmax(1) == batch.labels).sum())
            sums.add(BatchMetrics("heldout", loss, correct, len(batch.labels)))
            labels.append(batch.labels)
        counts = torch.cat(labels).bincount()
        images = int(counts.sum())
        return {**sums.means(), "heldout_chance": 100 * counts.max().item() / images, "heldout_images": images}


@dataclass(frozen=True, eq=False)
class _Passed:
    """What a forward and a backward pass of L1 left: where it was, and how to evaluate it there again."""

    logits: Tensor
    inputs: Weights
    relaxed: Relaxed
    mixture_gradients: MixtureGradients
    kinks: ActivationPattern | None
    start: random_streams.SavedRandomState

    @cached_property
    def gradient(self) -> Weights:
        """∂L1/∂w, before any regulariser has added to it."""
        return Weights({name: gradient_or_zero(weight.grad, weight) for name, weight in self.inputs.items()})


def _metrics(name: str, loss: Tensor, logits: Tensor, labels: Tensor, state: SearchState) -> BatchMetrics:
    value = loss.item()
    if not math.isfinite(value):
        raise DivergedError(_diverged(f"the {name} loss", value, state.epoch, state.step + 1))
    return BatchMetrics(name, value, int((logits.argmax(1) == labels).sum()), len(labels))


def _add_gradient(inputs: Weights, added: Weights | None) -> None:
    """Add to the gradient that is left at the weights, which stays as it is for whoever reads it."""
    for name, extra in (added or {}).items():
        gradient = inputs[name].grad
        inputs[name].grad = extra.detach().clone() if gradient is None else gradient + extra.detach()


def _same(weights: Weights, trained: Weights) -> bool:
    """Tell whether these are the trained weights themselves, not those of a virtual step or a difference."""
    return all(weights[name].data_ptr() == weight.data_ptr() for name, weight in trained.items())


def _check_gradient(gradient: Alpha, state: SearchState) -> None:
    for name, value in gradient.items():
        if not bool(torch.isfinite(value).all()):
            raise DivergedError(
                f"the architecture gradient of block {name!r} became not finite at step {state.step + 1} of epoch "
                f"{state.epoch + 1}; lower weights.lr or what scales the hypergradient (its lr, eta), and start again."
            )


def _diverged(what: str, value: float | str, epoch: int, step: int) -> str:
    return (
        f"{what} became {value} at step {step} of epoch {epoch + 1}; lower weights.lr or weights.clip and start again."
    )
