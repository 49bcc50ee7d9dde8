"""The two steps of a search: one moves α, the other the weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import functional_call

from archgrad import randomness
from archgrad.bilevel import Alpha, BilevelProblem, Weights
from archgrad.data import Batch, Loader
from archgrad.descent import Descent
from archgrad.discretizers import Tuning
from archgrad.errors import DivergedError
from archgrad.hypergradients import Batches, constants
from archgrad.hypergradients.pattern import ActivationPattern
from archgrad.hypergradients.point import gradients, leaves
from archgrad.loop.decided import Decided
from archgrad.loop.moment import Moment, Seen
from archgrad.loop.passes import Slopes, backward, by_training, evaluated, keep_gradients, or_zero, still, velocity
from archgrad.loop.state import PRODUCTS, BatchMetrics, MetricSums, SearchState, all_trusted
from archgrad.loop.step_batches import Drawn
from archgrad.method import Method
from archgrad.operations.twice import TwiceDifferentiable
from archgrad.regularizers import OuterStep, PerturbStep, Regularizer, WeightStep
from archgrad.relaxations import Relaxed
from archgrad.spaces import SearchSpace
from archgrad.training import WeightTraining

__all__ = ["Slopes", "StepResult", "Stepper"]

_SKIP_DROPOUT_DECAY = 0.2
"""By how much the logarithm of the rate falls from epoch to epoch once α moves."""

Forward = Callable[..., Any]
"""(weights, images, mixture, …) → logits, or two of them with the auxiliary head."""


class StepResult(NamedTuple):
    """What a step measured at w before it moved, and ∂L/∂p of every cell where that was computed."""

    metrics: BatchMetrics
    slopes: Slopes


@dataclass(frozen=True)
class Stepper:
    """Takes steps of one method on one supernet.

    All randomness of a step comes from streams named by the run's seed and the step's number.
    """

    space: SearchSpace
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
        method: Method,
        training: WeightTraining,
        seed: int,
        supernet: torch.nn.Module,
        compile_: bool,
    ) -> Stepper:
        """Build the stepper; ``compile_`` runs the supernet through ``torch.compile``, but not ``plain``."""

        def forward(weights: Weights, images: Tensor, mixture: Mapping[str, Tensor], **extra: object) -> Any:
            return functional_call(supernet, weights, (images, mixture), extra)

        return cls(space, method, training, seed, torch.compile(forward) if compile_ else forward, forward)

    def architecture_step(self, state: SearchState, batches: Drawn) -> StepResult:
        """Move the architecture: α ← optimiser(α, hypergradient)."""
        hypergradient = self.method.hypergradient
        moment = self.moment(state)
        inner_batch, outer_batch = Batches(map(batches.inner, range(hypergradient.inner_batches))), batches.outer()
        with moment.at(state.alpha, inner_batch, outer_batch) as point:
            gradient = constants(hypergradient.estimate(point))
            seen = moment.measured(outer_batch)
        metrics = _metrics("valid" if self.method.schedule.level == "bilevel" else "arch", *seen, state)
        self._move(state, gradient)
        return StepResult(metrics, moment.slopes)

    def moment(self, state: SearchState) -> Moment:
        """Return the bilevel problem that the search stands at, as an architecture step sees it."""
        noise = self._noise(state, "architecture")
        trained, frozen = by_training(state.weights)
        seen: list[Seen] = []
        slopes: Slopes = {}
        start = randomness.Rewind(state.device)
        twice = any(part.differentiates_outer_loss for part in self.method.regularizers)

        def whole(weights: Weights) -> Weights:
            """Add what is not trained."""
            return {**still(state, frozen), **weights}

        def inner(weights: Weights, alpha: Alpha, batch: Batch) -> Tensor:
            return self._training_loss(whole(weights), self._relax(alpha, noise, state), batch, state)[0]

        def outer(weights: Weights, alpha: Alpha, batch: Batch) -> Tensor:
            relaxed = self._relax(alpha, noise, state)
            with TwiceDifferentiable() if twice else nullcontext():
                loss, logits = self._loss(whole(weights), relaxed, batch, state)
            if not seen and _same(weights, trained):
                seen.append((loss.detach(), logits.detach(), batch.labels))
            if not slopes:
                keep_gradients(relaxed.mixture, slopes)
            return sum(self._outer_terms(alpha, relaxed, state, loss), start=loss)

        def look(batch: Batch) -> Seen:
            with torch.no_grad(), start.again():
                loss, logits = self._loss(whole(trained), self._relax(state.alpha, noise, state), batch, state)
            return loss, logits, batch.labels

        problem, mislead = BilevelProblem(inner, outer), not all_trusted(state.trusted, PRODUCTS)
        return Moment(problem, trained, self._descent(state, trained), seen, slopes, mislead, look)

    def slopes(self, state: SearchState, batch: Batch) -> Slopes:
        """Return ∂L2/∂p of every cell, of a step that does not move the architecture."""
        with torch.no_grad():
            relaxed = self._relax(state.alpha, self._noise(state, "architecture"), state)
        mixture, weights = leaves(relaxed.mixture), still(state, state.weights)
        with randomness.Rewind(state.device).again():
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
        terms = [(relaxed.mixture[name] * slope).sum() for name, slope in result.slopes.items()]
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
            _add_gradient(passed.inputs, part.weight_gradient(self._step_of(part, passed, state, batch)) or {})
        norm = torch.nn.utils.clip_grad_norm_(passed.inputs.values(), self.training.clip)
        loss = F.cross_entropy(passed.logits, batch.labels) if self.space.auxiliary else passed.loss
        metrics = _metrics("train", loss, passed.logits, batch.labels, state)
        if not math.isfinite(norm.item()):
            raise DivergedError(_diverged("the gradient of the weights", norm.item(), state.epoch, state.step + 1))
        for group in state.optimizer.param_groups:
            group["lr"] = self.training.lr_at(state.epoch)
            group["weight_decay"] = self.training.weight_decay_at(state.epoch)
        state.optimizer.step()
        state.optimizer.zero_grad(set_to_none=True)
        return StepResult(metrics, {name: slope.detach() for name, slope in passed.slopes.items()})

    def regularizers(self, state: SearchState) -> tuple[Regularizer, ...]:
        """Return the regularisers of the method, without differences of gradients that mislead in this search."""
        return tuple(
            part if state.trusted.get(type(part).__name__, True) else part.exact() for part in self.method.regularizers
        )

    def added_gradient(self, part: Regularizer, state: SearchState, relaxed: Relaxed, batch: Batch) -> Weights | None:
        """Return what a regulariser would add to the gradient of the weights, and leave everything as it is."""
        with randomness.Rewind(state.device).again():
            passed = self._passed(state, relaxed, batch, (part,), part.needs_mixture_gradient)
            gradient = part.weight_gradient(self._step_of(part, passed, state, batch))
        state.optimizer.zero_grad(set_to_none=True)
        return gradient

    def _passed(
        self, state: SearchState, relaxed: Relaxed, batch: Batch, parts: Sequence[Regularizer], wanted: bool
    ) -> _Passed:
        """Evaluate L1 and leave its gradient at the weights; take that of the mixture too if it is ``wanted``."""
        mixture = {name: value.detach() for name, value in relaxed.mixture.items()}
        if wanted:
            mixture = {name: value.clone().requires_grad_() for name, value in mixture.items()}
        relaxed, weights = Relaxed(mixture, relaxed.active), state.weights
        inputs = {name: weight for name, weight in weights.items() if weight.requires_grad}
        state.optimizer.zero_grad(set_to_none=True)
        twice = any(part.differentiates_gradient for part in parts)
        start = randomness.Rewind(state.device)
        kinks = ActivationPattern() if any(part.freezes_kinks for part in parts) else None
        with TwiceDifferentiable() if twice else nullcontext():
            loss, logits = evaluated(kinks, lambda: self._training_loss(weights, relaxed, batch, state))
        slopes = backward(loss, inputs, mixture if wanted else {}, twice)
        if kinks is not None:
            kinks.pack()
        # Detached, to let go of all that the backward pass has used.
        return _Passed(loss.detach(), logits.detach(), inputs, relaxed, slopes, kinks, start)

    def check(self, state: SearchState) -> None:
        """Raise a DivergedError if the last step left weights or architecture parameters that are not finite."""
        for kind, values in (("the weights", state.weights), ("the architecture parameters", state.alpha)):
            for name, value in values.items():
                if not bool(torch.isfinite(value).all()):
                    raise DivergedError(_diverged(f"{kind} {name!r}", "not finite", state.epoch, state.step))

    def _step_of(self, part: Regularizer, passed: _Passed, state: SearchState, batch: Batch) -> WeightStep:
        """Return what a regulariser may read of a weight step whose gradient of L1 is there."""
        kinks = passed.kinks if part.freezes_kinks else None

        def loss(weights: Weights, mixture: dict[str, Tensor]) -> Tensor:
            whole, found = {**still(state, state.weights), **weights}, Relaxed(mixture, passed.relaxed.active)
            with passed.start.again():
                return evaluated(kinks, lambda: self._training_loss(whole, found, batch, state))[0]

        return WeightStep(
            loss,
            self.space.searched,
            passed.inputs,
            passed.gradient,
            passed.relaxed.mixture,
            passed.slopes or None,
            state.progress,
            state.index,
        )

    def _relax(self, alpha: Alpha, noise: dict[str, Tensor] | None, state: SearchState) -> Relaxed:
        relaxed = self.method.relaxation.relax(self.space.searched, alpha, noise, state.progress)
        return relaxed if self.decided is None else self.decided.put_into(relaxed)

    def _outer_terms(
        self, alpha: Alpha, relaxed: Relaxed, state: SearchState, loss: Tensor | None = None
    ) -> list[Tensor]:
        """Return what regularisers add to the outer loss."""
        if not self.method.regularizers:
            return []
        blocks = self.space.searched
        probabilities = self.method.relaxation.probabilities(blocks, alpha)
        step = OuterStep(blocks, alpha, probabilities, relaxed.mixture, state.progress, loss)
        terms = (part.outer_term(step) for part in self.method.regularizers)
        return [term for term in terms if term is not None]

    def _noise(self, state: SearchState, purpose: str) -> dict[str, Tensor] | None:
        return self._draw(state, purpose, state.index)

    def _draw(self, state: SearchState, *stream: int | str) -> dict[str, Tensor] | None:
        """Draw what the relaxation needs, None if that is nothing."""
        generator = randomness.generator(self.seed, "relaxation", *stream)
        noise = self.method.relaxation.noise(self.space.searched, generator)
        return noise and {name: value.to(state.device) for name, value in noise.items()}

    def _perturbed(self, relaxed: Relaxed, batch: Batch, state: SearchState) -> Relaxed:
        start = randomness.Rewind(state.device)

        def loss(mixture: dict[str, Tensor]) -> Tensor:
            weights, found = still(state, state.weights), Relaxed(mixture, relaxed.active)
            with torch.enable_grad(), start.again():
                return self._training_loss(weights, found, batch, state)[0]

        mixture = relaxed.mixture
        for position, part in enumerate(self.method.regularizers):
            stream = randomness.generator(self.seed, "perturb", position, state.index)
            mixture = part.perturb(PerturbStep(self.space.searched, mixture, loss, state.progress, stream))
        return Relaxed(mixture, relaxed.active)

    def _loss(
        self, weights: Weights, relaxed: Relaxed, batch: Batch, state: SearchState, **extra: object
    ) -> tuple[Tensor, Tensor]:
        logits = self._forward(weights, relaxed, batch, state, **extra)
        return F.cross_entropy(logits, batch.labels), logits

    def _forward(self, weights: Weights, relaxed: Relaxed, batch: Batch, state: SearchState, **extra: object) -> Any:
        seed, extra = randomness.seed_of(self.seed, "supernet", state.index), {**self._on_skips(state), **extra}
        return self.forward(weights, batch.images, relaxed.mixture, active=relaxed.active, seed=seed, **extra)

    def _on_skips(self, state: SearchState) -> dict[str, float]:
        """Return what both losses have on skip connections, where there is any.

        The weight of the auxiliary ones, and the rate of dropout on the others, which is a part of the network while
        P-DARTS searches, for weights and architecture alike.
        """
        rate = self.skip_dropout(state)
        return self._auxiliary_skip(state) | ({"skip_dropout": rate} if rate else {})

    def _auxiliary_skip(self, state: SearchState) -> dict[str, float]:
        skip = sum(part.auxiliary_skip(state.progress) for part in self.method.regularizers)
        return {"skip": skip} if skip else {}

    def skip_dropout(self, state: SearchState) -> float:
        """Return the rate of dropout on skip connections, r at first.

        In epoch e of E it is r·(E − 1 − e)/E while α warms up, W epochs, and then r·exp(−(e − W)/5): it jumps back to
        r when α begins to move. So it is in the published code of P-DARTS; its paper says that it decays.
        """
        epoch, warmup, epochs = state.current_epoch, self.method.schedule.warmup_epochs, state.epochs
        if epoch < warmup:
            return self.space.skip_dropout * (epochs - 1 - epoch) / epochs
        return self.space.skip_dropout * math.exp(-_SKIP_DROPOUT_DECAY * (epoch - warmup))

    def _training_loss(
        self, weights: Weights, relaxed: Relaxed, batch: Batch, state: SearchState
    ) -> tuple[Tensor, Tensor]:
        """Return L1 and logits, with the space's drop-path, grown linearly, and its auxiliary head.

        L2 has neither: it judges the network as it will be used, but for what :meth:`_on_skips` says.
        """
        weight, drop_path = self.space.auxiliary, self.space.drop_path * state.current_epoch / state.epochs
        extra = ({"drop_path": drop_path} if drop_path else {}) | ({"auxiliary": True} if weight else {})
        if not weight:
            return self._loss(weights, relaxed, batch, state, **extra)
        logits, auxiliary = self._forward(weights, relaxed, batch, state, **extra)
        return F.cross_entropy(logits, batch.labels) + weight * F.cross_entropy(auxiliary, batch.labels), logits

    def _descent(self, state: SearchState, trained: Weights) -> Descent:
        """Return how the weights descend now, with the momentum they have."""
        settings = self.training
        lr, decay = settings.lr_at(state.current_epoch), settings.weight_decay_at(state.current_epoch)
        return Descent(lr, settings.momentum, decay, settings.nesterov, velocity(state.optimizer, trained))

    def held_out(self, state: SearchState, loader: Loader) -> dict[str, float]:
        """Measure loss and accuracy in per cent on images that did not train the weights, as they are.

        ``heldout_chance`` is the accuracy of naming the most common class each time.
        The network is that of the architecture step, with a mixture drawn for each batch where the relaxation samples.
        """
        sums, weights, labels = MetricSums(), still(state, state.weights), []
        for number in range(loader.steps):
            batch, stream = loader.batch(number), ("held-out", state.epoch, number)
            with torch.no_grad(), randomness.Rewind(state.device).again():
                relaxed = self._relax(state.alpha, self._draw(state, *stream), state)
                seed = randomness.seed_of(self.seed, "supernet", *stream)
                skips = self._auxiliary_skip(state)
                logits = self.plain(weights, batch.images, relaxed.mixture, active=relaxed.active, seed=seed, **skips)
            loss = F.cross_entropy(logits, batch.labels).item()
            correct = int((logits.argmax(1) == batch.labels).sum())
            sums.add(BatchMetrics("heldout", loss, correct, len(batch.labels)))
            labels.append(batch.labels)
        counts = torch.cat(labels).bincount()
        return {**sums.means(), "heldout_chance": 100 * counts.max().item() / counts.sum().item()}


@dataclass(frozen=True, eq=False)
class _Passed:
    """What a forward and a backward pass of L1 left: where it was, and how to evaluate it there again."""

    loss: Tensor
    logits: Tensor
    inputs: Weights
    relaxed: Relaxed
    slopes: Slopes
    kinks: ActivationPattern | None
    start: randomness.Rewind

    @cached_property
    def gradient(self) -> Weights:
        """∂L1/∂w, before any regulariser has added to it."""
        return {name: or_zero(weight.grad, weight) for name, weight in self.inputs.items()}


def _metrics(name: str, loss: Tensor, logits: Tensor, labels: Tensor, state: SearchState) -> BatchMetrics:
    value = loss.item()
    if not math.isfinite(value):
        raise DivergedError(_diverged(f"the {name} loss", value, state.epoch, state.step + 1))
    return BatchMetrics(name, value, int((logits.argmax(1) == labels).sum()), len(labels))


def _add_gradient(inputs: Weights, added: Weights) -> None:
    """Add to the gradient that is left at the weights, which stays as it is for whoever reads it."""
    for name, extra in added.items():
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
