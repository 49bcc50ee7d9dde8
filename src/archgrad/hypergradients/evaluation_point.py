"""The point where a hypergradient is estimated: problem, variables, batches and descent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from archgrad.autodiff.gradients import constants, gradients, leaves
from archgrad.autodiff.products import Kinks, ProductKind, Products, products_of
from archgrad.autodiff.tensors import Alpha, MixtureGradients, Weights
from archgrad.autodiff.vectors import Vector
from archgrad.bilevel.descent import Descent, InnerDescent
from archgrad.bilevel.problem import BilevelProblem
from archgrad.errors import UserError
from archgrad.system import random_streams
from archgrad.system.random_streams import SavedRandomState

__all__ = ["Batches", "EvaluationPoint", "evaluate_at"]

Found = TypeVar("Found")


class Batches(tuple[Any, ...]):
    """One inner batch for each inner step; any other object is a single batch for all steps."""


@dataclass(eq=False)
class EvaluationPoint:
    """A point (w, α) of a bilevel problem, as constants; evaluating a loss there changes no weights and no α.

    ``differences_mislead`` means that the problem has kinks that cannot be frozen, so products must be exact unless
    they are to cross the kinks. An estimate draws its random numbers from ``generator``, which is on the CPU.

    The point keeps what its first evaluation of the outer loss has ``measured``, if the problem measures anything, and
    the gradients of the mixture there; with ``keeps_weight_gradient``, those of the weights too.
    """

    problem: BilevelProblem
    weights: Weights
    alpha: Alpha
    inner_batch: Any
    outer_batch: Any
    descent: InnerDescent | None
    generator: torch.Generator
    differences_mislead: bool = False
    measured: Any = field(default=None, init=False)
    mixture_gradients: MixtureGradients = field(default_factory=dict, init=False)
    keeps_weight_gradient: bool = field(default=False, init=False)
    weight_gradient: Weights | None = field(default=None, init=False)

    def outer(self, weights: Weights | None = None) -> tuple[Alpha, Weights]:
        """Return ∂L2/∂α and ∂L2/∂w at ``weights``, by default the point's own."""
        alpha, at = leaves(self.alpha), leaves(self.weights if weights is None else weights)
        if weights is not None:
            return gradients(lambda: self.problem.outer(at, alpha, self.outer_batch), alpha, at)
        of_alpha, of_weights = self._differentiate(at, alpha, alpha, at)
        return Alpha(of_alpha), Weights(of_weights)

    def direct(self, alpha: Alpha | None = None) -> Alpha:
        """Return ∂L2/∂α alone; no gradient of the weights is computed, unless the point keeps it.

        ``alpha`` may give each image its own α, ``[N, rows, choices]``; by default all have the point's.
        """
        at = leaves(self.alpha if alpha is None else alpha)
        if self.keeps_weight_gradient and self.weight_gradient is None:
            weights = leaves(self.weights)
            return Alpha(self._differentiate(weights, at, at, weights)[0])
        return Alpha(self._differentiate(self.weights, at, at)[0])

    def of_weights(self) -> Weights:
        """Return ∂L2/∂w at the point: the one that was kept, or by another pass if the estimate never took it."""
        return self.outer()[1] if self.weight_gradient is None else self.weight_gradient

    def _differentiate(self, weights: Weights, alpha: Alpha, *variables: Vector) -> Sequence[Vector]:
        """Differentiate the outer loss at the point, and keep what the first evaluation there measured."""
        if self.problem.evaluate is None or self.measured is not None:
            return gradients(lambda: self.problem.outer(weights, alpha, self.outer_batch), *variables)
        loss, mixture, self.measured = self.problem.evaluate(weights, alpha, self.outer_batch)
        moving = {name: value for name, value in mixture.items() if value.requires_grad}
        *found, self.mixture_gradients = gradients(lambda: loss, *variables, moving)
        if self.keeps_weight_gradient and len(variables) > 1:
            self.weight_gradient = constants(Weights(found[1]))
        return found

    def inner(self, step: int = 0) -> Callable[[Weights, Alpha], Tensor]:
        """Return L1 on the batch of an inner step."""
        batch = self._batch(step) if isinstance(self.inner_batch, Batches) else self.inner_batch
        return lambda weights, alpha: self.problem.inner(weights, alpha, batch)

    def products(
        self, kind: ProductKind, step: int = 0, weights: Weights | None = None, kinks: Kinks = "frozen"
    ) -> Products:
        """Return second-derivative products of the inner loss of a ``step``; exact ones if frozen kinks mislead.

        They are evaluated at ``weights``, by default the point's own.
        """
        at = self.weights if weights is None else weights
        exact = self.differences_mislead and kinks == "frozen"
        return products_of("exact" if exact else kind, self.inner(step), at, self.alpha, kinks)

    def _batch(self, step: int) -> Any:
        if step >= len(self.inner_batch):
            raise UserError(
                f"there are {len(self.inner_batch)} inner batches, but inner step {step + 1} needs its own; "
                f"give one for each step, or a single batch, not in Batches, for all."
            )
        return self.inner_batch[step]

    def descent_at(self, lr: float | None) -> InnerDescent:
        """Return how the weights descend, at the learning rate ``lr`` if that is not None; without a descent by SGD."""
        if self.descent is None:
            return Descent(self.rate(lr))
        return self.descent if lr is None else replace(cast(Any, self.descent), lr=lr)

    def rate(self, lr: float | None) -> float:
        """Return ``lr``, or the learning rate of SGD on the weights if it is None."""
        if lr is not None:
            return lr
        if not isinstance(self.descent, Descent):
            raise UserError(
                "lr is None, which means the learning rate of SGD on the weights, but no descent by SGD is given; set "
                "lr to a number, or pass descent=Descent(lr=...)."
            )
        return self.descent.lr


@contextmanager
def evaluate_at(
    problem: BilevelProblem,
    weights: Weights,
    alpha: Alpha,
    inner_batch: Any,
    outer_batch: Any,
    descent: InnerDescent | None = None,
    differences_mislead: bool = False,
    generator: torch.Generator | None = None,
) -> Iterator[EvaluationPoint]:
    """Open an evaluation point: gradients are recorded even under ``no_grad``, and the random state is restored.

    Without a ``generator``, the estimate draws from a stream that is always the same.
    """
    with torch.inference_mode(False), torch.enable_grad():
        weights, alpha = constants(weights), constants(alpha)
        with _repeatable(problem, [*weights.values(), *alpha.values()]) as repeated:
            generator = random_streams.generator(0, "hypergradient") if generator is None else generator
            batches = inner_batch, outer_batch
            yield EvaluationPoint(repeated, weights, alpha, *batches, descent, generator, differences_mislead)


@contextmanager
def _repeatable(problem: BilevelProblem, tensors: Sequence[Tensor]) -> Iterator[BilevelProblem]:
    """Give both losses the same random numbers in every evaluation; restore the random state afterwards.

    Two evaluations then differ by their weights only, not by their dropout masks.
    """
    start = SavedRandomState(*(tensor.device for tensor in tensors))

    def repeated(loss: Callable[[Weights, Alpha, Any], Found]) -> Callable[[Weights, Alpha, Any], Found]:
        def evaluate(weights: Weights, alpha: Alpha, batch: Any) -> Found:
            with start.replay():
                return loss(weights, alpha, batch)

        return evaluate

    evaluate = None if problem.evaluate is None else repeated(problem.evaluate)
    with start.replay():
        yield BilevelProblem(repeated(problem.inner), repeated(problem.outer), evaluate)
