"""The losses of a supernet as its method and its task define them: α → mixture → outputs → L1 or L2.

At one step of a search they are a bilevel problem.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.func import functional_call

from archgrad.autodiff.double_backward import TwiceDifferentiable
from archgrad.autodiff.gradients import detached_parameters, split_trained
from archgrad.autodiff.tensors import Alpha, Mixture, Weights
from archgrad.bilevel.adam_descent import AdamDescent, moments_of
from archgrad.bilevel.descent import Descent, InnerDescent, momentum_of
from archgrad.bilevel.problem import BilevelProblem, Evaluation
from archgrad.data import Batch
from archgrad.distributed.forward import forward_on_shards
from archgrad.distributed.processes import processes
from archgrad.hypergradients import Batches, EvaluationPoint, evaluate_at
from archgrad.loop.precision import lowered
from archgrad.loop.state import PRODUCTS, SearchState
from archgrad.loop.step_checks import check_finite, check_like, check_loss, check_relaxed, check_tensor, reads_are_due
from archgrad.method.bundle import Method
from archgrad.regularizers import OuterStep, PerturbStep, Regularizer
from archgrad.relaxations import Relaxed
from archgrad.spaces import DecisionBlock, SearchSpace
from archgrad.supernet import Modifier, Purpose, SearchTime, SupernetOptions, merge_arguments
from archgrad.system import random_streams
from archgrad.tasks import BaseTask, align
from archgrad.training.weight_training import WeightTraining

__all__ = ["BilevelStep", "EvaluatedBatch", "Forward", "SupernetLosses", "forward_of"]

Forward = Callable[..., Any]
"""(weights, batch, mixture, …) → outputs, or a tuple of outputs with the auxiliary head.

Of several processes, each gives the inputs of its own rows, and gets the outputs of all.
"""


def forward_of(
    supernet: torch.nn.Module, compile_: bool = False, local_batch_norm: bool = False, precision: str = "32"
) -> Forward:
    """Return the forward pass of a supernet, on shards if several processes search together."""

    def call(weights: Weights, images: Tensor, mixture: Mixture, **extra: object) -> Any:
        return functional_call(supernet, weights, (images, mixture), extra)

    run = call if precision == "32" else lowered(call, next(supernet.parameters()).device)
    compiled = torch.compile(run) if compile_ else run

    def forward(weights: Weights, batch: Batch, mixture: Mixture, **extra: object) -> Any:
        if processes().size == 1:
            return compiled(weights, batch.inputs, mixture, **extra)
        rows = len(batch.targets)
        return forward_on_shards(run, weights, batch.inputs, mixture, rows, local_batch_norm, **extra)

    return forward


@dataclass(frozen=True)
class SupernetLosses:
    """Computes mixtures and losses of one method on one supernet.

    All randomness comes from streams that are named by the run's seed and the step's number. ``forward`` may be
    compiled, ``plain`` never is. If both compute in less than 32 bit, ``full`` is the same in 32 bit.
    """

    space: SearchSpace
    options: SupernetOptions
    method: Method
    seed: int
    forward: Forward
    plain: Forward
    task: BaseTask
    outputs: int
    full: Forward | None = None

    def in_full_precision(self) -> SupernetLosses:
        """Return the same losses in 32 bit, for second derivatives and differences of gradients."""
        return self if self.full is None else replace(self, forward=self.full, plain=self.full, full=None)

    @cached_property
    def blocks(self) -> tuple[DecisionBlock, ...]:
        """All blocks that have architecture parameters."""
        return self.space.searched_blocks(self.options)

    @cached_property
    def modifiers(self) -> tuple[Modifier, ...]:
        """The modifiers of the supernet's forward pass: of its options, of the space, and of the regularizers."""
        return (*self.options.modifiers, *self.space.modifiers, *self.method.modifiers)

    def regularizers(self, state: SearchState) -> tuple[Regularizer, ...]:
        """Return the method's regularizers; those whose gradient differences mislead use exact derivatives."""
        return tuple(
            part if state.trusted.get(type(part).__name__, True) else part.exact() for part in self.method.regularizers
        )

    def noise(self, state: SearchState, *stream: int | str) -> dict[str, Tensor] | None:
        """Draw the noise of the relaxation, None if it needs none."""
        generator = random_streams.generator(self.seed, "relaxation", *stream, device=state.device)
        noise = self.method.relaxation.noise(self.blocks, generator)
        return noise and {name: value.to(state.device) for name, value in noise.items()}

    def relax(self, alpha: Alpha, noise: dict[str, Tensor] | None, state: SearchState) -> Relaxed:
        """Return the mixture of α, with the decided rows in their places."""
        relaxed = self.method.relaxation.relax(self.blocks, alpha, noise, state.progress)
        check_relaxed(self.method.relaxation, self.blocks, alpha, relaxed)
        return state.decided.fixed(relaxed)

    def perturb(self, relaxed: Relaxed, batch: Batch, state: SearchState) -> Relaxed:
        """Return the mixture after all regularizers have perturbed it."""
        start = random_streams.SavedRandomState(state.device)

        def loss(mixture: Mixture) -> Tensor:
            weights, found = detached_parameters(state.supernet, state.weights), Relaxed(mixture, relaxed.active)
            with torch.enable_grad(), start.replay():
                return self.inner(weights, found, batch, state)[0]

        mixture = relaxed.mixture
        for position, part in enumerate(self.method.regularizers):
            stream = random_streams.generator(self.seed, "perturb", position, state.index, device=state.device)
            mixture = part.perturb(PerturbStep(self.blocks, mixture, loss, state.progress, stream))
            check_like(part, "perturb", mixture, relaxed.mixture)
        return Relaxed(mixture, relaxed.active)

    def inner(self, weights: Weights, relaxed: Relaxed, batch: Batch, state: SearchState) -> tuple[Tensor, Tensor]:
        """Return the training loss L1 and the outputs."""
        return self._loss(weights, relaxed, batch, state, "training")

    def outer(self, weights: Weights, relaxed: Relaxed, batch: Batch, state: SearchState) -> tuple[Tensor, Tensor]:
        """Return the loss of the architecture, L2, without regularizers' terms, and the outputs."""
        return self._loss(weights, relaxed, batch, state, "architecture")

    def _loss(
        self, weights: Weights, relaxed: Relaxed, batch: Batch, state: SearchState, purpose: Purpose
    ) -> tuple[Tensor, Tensor]:
        seed = random_streams.seed_of(self.seed, "supernet", state.index)
        extra = self.modifier_arguments(state, purpose)
        output = self.forward(weights, batch, relaxed.mixture, active=relaxed.active, seed=seed, **extra)
        first, *further = output if isinstance(output, tuple) else (output,)
        check_tensor(self.space, "supernet", first, (len(batch.targets), self.outputs))
        outputs = align(first, batch.targets)
        terms = [modifier.loss_term(further, partial(self._auxiliary, batch)) for modifier in self.modifiers if further]
        loss = self.task_loss(outputs, batch.targets)
        return sum((term for term in terms if term is not None), start=loss), outputs

    def _auxiliary(self, batch: Batch, outputs: Tensor) -> Tensor:
        """Return the task's loss of an auxiliary head."""
        return self.task_loss(align(outputs, batch.targets), batch.targets)

    def task_loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the task's loss of a batch, checked."""
        loss = self.task.loss(outputs, targets)
        check_loss(self.task, loss, outputs)
        return loss

    def outer_terms(
        self, alpha: Alpha, relaxed: Relaxed, state: SearchState, loss: Tensor | None = None
    ) -> list[Tensor]:
        """Return the terms that regularizers add to the outer loss."""
        if not self.method.regularizers:
            return []
        blocks = self.blocks
        probabilities = state.decided.inserted(self.method.relaxation.probabilities(blocks, alpha))
        epoch = state.current_epoch + 1
        step = OuterStep(blocks, alpha, probabilities, relaxed.mixture, state.progress, loss, epoch, state.epochs)
        terms = []
        for part in self.method.regularizers:
            if (term := part.outer_term(step)) is not None:
                check_tensor(part, "outer_term", term, ())
                if reads_are_due(state):
                    check_finite(f"the term of {type(part).__name__} in the architecture's loss", term.item(), state)
                terms.append(term)
        return terms

    def modifier_arguments(self, state: SearchState, purpose: Purpose) -> dict[str, Any]:
        """Return the arguments that modifiers pass to the supernet's forward pass now."""
        warmup = self.method.schedule.warmup_epochs
        time = SearchTime(state.current_epoch, state.epochs, warmup, state.progress)
        return merge_arguments(self.modifiers, purpose, time)


class EvaluatedBatch(NamedTuple):
    """Loss, outputs and targets of one evaluation."""

    loss: Tensor
    outputs: Tensor
    targets: Tensor


@dataclass(frozen=True, eq=False)
class BilevelStep:
    """The bilevel problem of a search at one step: two losses, the trained weights, and how they descend.

    ``frozen`` are the weights that are not trained. ``descent`` is None if the others are trained by an optimizer
    whose steps are not known. ``noise`` is that of the relaxation, the same in all evaluations. ``start`` is the random
    state before the first of them.
    """

    losses: SupernetLosses
    state: SearchState
    weights: Weights
    frozen: Weights
    descent: InnerDescent | None
    noise: dict[str, Tensor] | None
    start: random_streams.SavedRandomState

    @classmethod
    def of(cls, losses: SupernetLosses, training: WeightTraining, state: SearchState) -> BilevelStep:
        """Return the bilevel problem at the present state, as an architecture step sees it."""
        trained, frozen = split_trained(state.weights)
        descent = _present_descent(training, state, trained)
        noise, start = losses.noise(state, "architecture", state.index), random_streams.SavedRandomState(state.device)
        return cls(losses, state, trained, frozen, descent, noise, start)

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
        mislead = not all(agreed for key, agreed in self.state.trusted.items() if key.startswith(PRODUCTS))
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


def _present_descent(training: WeightTraining, state: SearchState, weights: Weights) -> InnerDescent | None:
    """Return the optimizer of the weights at its present state, if its steps are known."""
    lr, decay = training.lr_at(state.current_epoch), training.weight_decay_at(state.current_epoch)
    if training.known_steps is None:
        return None
    if training.known_steps == "sgd":
        return Descent(lr, training.momentum, decay, training.nesterov, momentum_of(state.optimizer, weights))
    (group,) = state.optimizer.param_groups
    decoupled = training.known_steps == "adamw"
    return AdamDescent(lr, group["betas"], group["eps"], decay, decoupled, moments_of(state.optimizer, weights))
