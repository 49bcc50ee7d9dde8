"""The point where a hypergradient is estimated: problem, variables, batches and descent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from archgrad.autodiff.gradients import constants, gradients, leaves
from archgrad.autodiff.products import Kinks, ProductKind, Products, products_of
from archgrad.autodiff.tensors import Alpha, Weights
from archgrad.bilevel.descent import Descent
from archgrad.bilevel.problem import BilevelProblem, Loss
from archgrad.errors import UserError
from archgrad.system.random_streams import SavedRandomState

__all__ = ["Batches", "EvaluationPoint", "evaluate_at"]


class Batches(tuple[Any, ...]):
    """One inner batch for each inner step; any other object is a single batch for all steps."""


@dataclass(frozen=True, eq=False)
class EvaluationPoint:
    """A point (w, α) of a bilevel problem, as constants; evaluating a loss there changes no state.

    ``differences_mislead`` means that the problem has kinks that cannot be frozen, so products must be exact unless
    they are to cross the kinks.
    """

    problem: BilevelProblem
    weights: Weights
    alpha: Alpha
    inner_batch: Any
    outer_batch: Any
    descent: Descent | None
    differences_mislead: bool = False

    def outer(self, weights: Weights | None = None) -> tuple[Alpha, Weights]:
        """Return ∂L2/∂α and ∂L2/∂w at ``weights``, by default the point's own."""
        alpha, at = leaves(self.alpha), leaves(self.weights if weights is None else weights)
        of_alpha, of_weights = gradients(lambda: self.problem.outer(at, alpha, self.outer_batch), alpha, at)
        return of_alpha, of_weights

    def direct(self) -> Alpha:
        """Return ∂L2/∂α alone; no gradient of the weights is computed."""
        alpha = leaves(self.alpha)
        return gradients(lambda: self.problem.outer(self.weights, alpha, self.outer_batch), alpha)[0]

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

    def descent_at(self, lr: float | None) -> Descent:
        """Return how the weights descend, at the learning rate ``lr`` if that is not None."""
        if self.descent is not None:
            return self.descent if lr is None else replace(self.descent, lr=lr)
        if lr is None:
            raise UserError(
                "lr is None, which means the learning rate of SGD on the weights, but no descent is given; set lr to a "
                "number, or pass descent=Descent(lr=...)."
            )
        return Descent(lr)


@contextmanager
def evaluate_at(
    problem: BilevelProblem,
    weights: Weights,
    alpha: Alpha,
    inner_batch: Any,
    outer_batch: Any,
    descent: Descent | None = None,
    differences_mislead: bool = False,
) -> Iterator[EvaluationPoint]:
    """Open an evaluation point: gradients are recorded even under ``no_grad``, and the random state is restored."""
    with torch.inference_mode(False), torch.enable_grad():
        weights, alpha = constants(weights), constants(alpha)
        with _repeatable(problem, [*weights.values(), *alpha.values()]) as repeated:
            yield EvaluationPoint(repeated, weights, alpha, inner_batch, outer_batch, descent, differences_mislead)


@contextmanager
def _repeatable(problem: BilevelProblem, tensors: Sequence[Tensor]) -> Iterator[BilevelProblem]:
    """Give both losses the same random numbers in every evaluation; restore the random state afterwards.

    Two evaluations then differ by their weights only, not by their dropout masks.
    """
    start = SavedRandomState(*(tensor.device for tensor in tensors))

    def repeated(loss: Loss) -> Loss:
        def evaluate(weights: Weights, alpha: Alpha, batch: Any) -> Tensor:
            with start.replay():
                return loss(weights, alpha, batch)

        return evaluate

    with start.replay():
        yield BilevelProblem(repeated(problem.inner), repeated(problem.outer))
