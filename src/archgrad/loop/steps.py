"""The two steps of a search: one moves α, the other the weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import functional_call

from archgrad import randomness
from archgrad.bilevel import Alpha, BilevelProblem, Weights
from archgrad.data import Batch, Loader
from archgrad.descent import Descent
from archgrad.errors import DivergedError
from archgrad.hypergradients import Batches, Point, constants, standing
from archgrad.hypergradients.pattern import ActivationPattern
from archgrad.hypergradients.point import gradients, leaves
from archgrad.loop.passes import Slopes, backward, by_training, evaluated, keep_gradients, or_zero, still, velocity
from archgrad.loop.state import SearchState
from archgrad.method import Method
from archgrad.operations.twice import TwiceDifferentiable
from archgrad.regularizers import OuterStep, PerturbStep, WeightStep
from archgrad.relaxations import Relaxed
from archgrad.spaces import SearchSpace
from archgrad.training import WeightTraining

__all__ = ["Drawn", "Moment", "Slopes", "Stepper"]

_SKIP_DROPOUT_DECAY = 0.2
"""By how much the logarithm of the rate falls from epoch to epoch."""

Forward = Callable[..., Any]
"""(weights, images, mixture, …) → logits, or two of them with the auxiliary head."""


@dataclass(frozen=True, eq=False)
class Moment:
    """The bilevel problem of a search at one step: two losses, the weights that are trained, and how.

    ``seen`` holds the loss, logits and labels of the first evaluation of the outer loss, once there was one, and
    ``slopes`` the gradient of every cell's mixture that passed through it on its way to α.
    """

    problem: BilevelProblem
    weights: Weights
    descent: Descent
    seen: list[tuple[Tensor, Tensor, Tensor]]
    slopes: Slopes

    def at(self, alpha: Alpha, inner_batch: Batches, outer_batch: Batch) -> AbstractContextManager[Point]:
        """Stand at this moment of the search with these batches."""
        return standing(self.problem, self.weights, alpha, inner_batch, outer_batch, self.descent)


class Drawn:
    """The batches of one step, each drawn when it is first asked for and only then.

    The k-th inner batch is that of the weight step k steps later.
    """

    def __init__(self, weight_loader: Loader, arch_loader: Loader, index: int) -> None:
        self._loaders, self._index = (weight_loader, arch_loader), index
        self._inner: dict[int, Batch] = {}
        self._outer: Batch | None = None

    def inner(self, step: int) -> Batch:
        """Return a batch that trains the weights."""
        if step not in self._inner:
            self._inner[step] = self._loaders[0].batch(self._index + step)
        return self._inner[step]

    def outer(self) -> Batch:
        """Return the batch that trains the architecture."""
        if self._outer is None:
            self._outer = self._loaders[1].batch(self._index)
        return self._outer


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
        """Build the stepper; ``compile_`` runs the supernet through ``torch.compile``."""

        def forward(weights: Weights, images: Tensor, mixture: Mapping[str, Tensor], **extra: object) -> Any:
            return functional_call(supernet, weights, (images, mixture), extra)

        return cls(space, method, training, seed, torch.compile(forward) if compile_ else forward)

    def architecture_step(self, state: SearchState, batches: Drawn) -> Slopes:
        """Move the architecture: α ← optimiser(α, hypergradient); return the cells' share in ∂L2/∂α."""
        hypergradient = self.method.hypergradient
        moment = self.moment(state)
        inner_batch, outer_batch = Batches(map(batches.inner, range(hypergradient.inner_batches))), batches.outer()
        with moment.at(state.alpha, inner_batch, outer_batch) as point:
            gradient = constants(hypergradient.estimate(point))
        if moment.seen:
            kind = "valid" if self.method.schedule.level == "bilevel" else "arch"
            self._record(state, kind, *moment.seen[0])
        self._move(state, gradient)
        return moment.slopes

    def moment(self, state: SearchState) -> Moment:
        """Return the bilevel problem that the search stands at, as an architecture step sees it."""
        noise = self._noise(state, "architecture")
        trained, frozen = by_training(state.weights)
        seen: list[tuple[Tensor, Tensor, Tensor]] = []
        slopes: Slopes = {}
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
            if not seen:
                seen.append((loss.detach(), logits.detach(), batch.labels))
            if not slopes:
                keep_gradients(relaxed.mixture, slopes)
            return sum(self._outer_terms(alpha, relaxed, state, loss), start=loss)

        return Moment(BilevelProblem(inner, outer), trained, self._descent(state, trained), seen, slopes)

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

    def weight_step(self, state: SearchState, batch: Batch) -> None:
        """Move the weights: w ← SGD(w, clipped gradient of the training loss + what regularisers add)."""
        with torch.no_grad():
            relaxed = self._seen_by_weights(state.alpha, batch, state)
        wanted = any(part.needs_mixture_gradient for part in self.method.regularizers)
        self._descend(state, relaxed, batch, wanted)

    def tuning_step(self, state: SearchState, relaxed: Relaxed, batch: Batch) -> None:
        """Move the weights with a mixture that is given, by the training loss alone: no regulariser has a say."""
        plain = replace(self, method=replace(self.method, regularizers=()))
        plain._descend(state, relaxed, batch, wanted=False)

    def joint_step(self, state: SearchState, batch: Batch) -> Slopes:
        """Move the weights and the architecture, both by the gradient of the training loss at the same point.

        One backward pass gives ∂L1/∂w and the gradient of every cell's mixture, which is then pulled back to α and
        returned.
        """
        alpha = leaves(state.alpha)
        relaxed = self._seen_by_weights(alpha, batch, state)
        slopes = self._descend(state, relaxed, batch, wanted=True)
        terms = [(relaxed.mixture[name] * slope).sum() for name, slope in slopes.items()]
        terms += self._outer_terms(alpha, relaxed, state)
        (gradient,) = gradients(lambda: sum(terms[1:], start=terms[0]), alpha)
        self._move(state, gradient)
        return slopes

    def _move(self, state: SearchState, gradient: Alpha) -> None:
        _check_gradient(gradient, state)
        state.alpha, state.arch_state = self.method.arch_optimizer.step(state.alpha, gradient, state.arch_state)

    def _seen_by_weights(self, alpha: Alpha, batch: Batch, state: SearchState) -> Relaxed:
        """Return the mixture of a weight step, as regularisers perturb it."""
        relaxed = self._relax(alpha, self._noise(state, "weights"), state)
        return self._perturbed(relaxed, batch, state)

    def _descend(self, state: SearchState, relaxed: Relaxed, batch: Batch, wanted: bool) -> Slopes:
        """Take a step of the weights; return the gradient of the mixture if that is ``wanted``, else nothing."""
        mixture = {name: value.detach() for name, value in relaxed.mixture.items()}
        if wanted:
            mixture = {name: value.clone().requires_grad_() for name, value in mixture.items()}
        relaxed, weights = Relaxed(mixture, relaxed.active), state.weights
        inputs = {name: weight for name, weight in weights.items() if weight.requires_grad}
        state.optimizer.zero_grad(set_to_none=True)
        twice = any(part.differentiates_gradient for part in self.method.regularizers)
        start = randomness.Rewind(state.device)
        kinks = ActivationPattern() if any(part.freezes_kinks for part in self.method.regularizers) else None
        with TwiceDifferentiable() if twice else nullcontext():
            loss, logits = evaluated(kinks, lambda: self._training_loss(weights, relaxed, batch, state))
        slopes = backward(loss, inputs, mixture if wanted else {}, twice)
        loss, logits = loss.detach(), logits.detach()  # lets go of all that the backward pass has used
        if kinks is not None:
            kinks.pack()
        self._regularise(state, inputs, relaxed, slopes, batch, kinks, start)
        norm = torch.nn.utils.clip_grad_norm_(inputs.values(), self.training.clip)
        self._record(state, "train", loss, logits, batch.labels)
        if not math.isfinite(norm.item()):
            raise DivergedError(_diverged("the gradient of the weights", norm.item(), state.epoch, state.step + 1))
        for group in state.optimizer.param_groups:
            group["lr"] = self.training.lr_at(state.epoch)
            group["weight_decay"] = self.training.weight_decay_at(state.epoch)
        state.optimizer.step()
        state.optimizer.zero_grad(set_to_none=True)
        return {name: slope.detach() for name, slope in slopes.items()}

    def check(self, state: SearchState) -> None:
        """Raise a DivergedError if the last step left weights or architecture parameters that are not finite."""
        for kind, values in (("the weights", state.weights), ("the architecture parameters", state.alpha)):
            for name, value in values.items():
                if not bool(torch.isfinite(value).all()):
                    raise DivergedError(_diverged(f"{kind} {name!r}", "not finite", state.epoch, state.step))

    def _regularise(
        self,
        state: SearchState,
        inputs: Weights,
        relaxed: Relaxed,
        slopes: Slopes,
        batch: Batch,
        kinks: ActivationPattern | None,
        start: randomness.Rewind,
    ) -> None:
        """Add to the gradient of the weights what regularisers want."""
        if not self.method.regularizers:
            return

        def loss(weights: Weights, mixture: dict[str, Tensor], frozen_kinks: bool) -> Tensor:
            whole, found = {**still(state, state.weights), **weights}, Relaxed(mixture, relaxed.active)
            with start.again():
                return evaluated(
                    kinks if frozen_kinks else None, lambda: self._training_loss(whole, found, batch, state)
                )[0]

        step = WeightStep(
            partial(loss, frozen_kinks=False),
            self.space.searched,
            inputs,
            {name: or_zero(weight.grad, weight) for name, weight in inputs.items()},
            relaxed.mixture,
            slopes or None,
            state.progress,
            state.index,
        )
        extras = [
            part.weight_gradient(replace(step, loss=partial(loss, frozen_kinks=part.freezes_kinks))) or {}
            for part in self.method.regularizers
        ]
        for name, extra in ((name, extra.detach()) for added in extras for name, extra in added.items()):
            gradient = inputs[name].grad
            inputs[name].grad = extra.clone() if gradient is None else gradient + extra

    def _relax(self, alpha: Alpha, noise: dict[str, Tensor] | None, state: SearchState) -> Relaxed:
        return self.method.relaxation.relax(self.space.searched, alpha, noise, state.progress)

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
        stream = randomness.generator(self.seed, "relaxation", purpose, state.index)
        noise = self.method.relaxation.noise(self.space.searched, stream)
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

        The weight of the auxiliary ones, and the rate of dropout on the others, which falls by exp(−epoch/5) and is a
        part of the network while P-DARTS searches, for weights and architecture alike.
        """
        skip = sum(part.auxiliary_skip(state.progress) for part in self.method.regularizers)
        rate = self.space.skip_dropout * math.exp(-_SKIP_DROPOUT_DECAY * state.current_epoch)
        return ({"skip": skip} if skip else {}) | ({"skip_dropout": rate} if rate else {})

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

    def _record(self, state: SearchState, kind: str, loss: Tensor, logits: Tensor, labels: Tensor) -> None:
        value = loss.item()
        if not math.isfinite(value):
            raise DivergedError(_diverged(f"the {kind} loss", value, state.epoch, state.step + 1))
        correct = int((logits.argmax(1) == labels).sum())
        state.sums.add(kind, value, correct, len(labels))


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
