"""The bilevel problem of a search at one step."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from torch import Tensor

from archgrad.bilevel import BilevelProblem
from archgrad.data import Batch
from archgrad.descent import Descent
from archgrad.hypergradients import Batches, EvaluationPoint, evaluate_at
from archgrad.tensors import Alpha, MixtureGradients, Weights

__all__ = ["BilevelStep", "Seen"]

Seen = tuple[Tensor, Tensor, Tensor]
"""Loss, logits and labels of one evaluation."""


@dataclass(frozen=True, eq=False)
class BilevelStep:
    """The bilevel problem of a search at one step: two losses, the weights that are trained, and how.

    ``seen`` holds the loss, logits and labels of the first evaluation of the outer loss at the weights themselves, once
    there was one. ``mixture_gradients`` holds the gradient of every cell's mixture in the first evaluation.
    """

    problem: BilevelProblem
    weights: Weights
    descent: Descent
    seen: list[Seen]
    mixture_gradients: MixtureGradients
    differences_mislead: bool
    look: Callable[[Batch], Seen]

    def at(self, alpha: Alpha, inner_batch: Batches, outer_batch: Batch) -> AbstractContextManager[EvaluationPoint]:
        """Open the evaluation point of this step with these batches."""
        exact = self.differences_mislead
        return evaluate_at(self.problem, self.weights, alpha, inner_batch, outer_batch, self.descent, exact)

    def measured(self, batch: Batch) -> Seen:
        """Return loss, logits and labels of the outer loss at the weights, for every estimate the same measure.

        Most estimates have evaluated it there. For one that only looks ahead, such as second-order DARTS, it takes a
        forward pass more.
        """
        return self.seen[0] if self.seen else self.look(batch)
