"""Stop the training of operations that only learn their training images: OLES."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from torch import Tensor

from archgrad.parts.fields import Count, Range
from archgrad.regularizers.base import Regularizer, RegularizerState, WeightStep
from archgrad.system.devices import widened

__all__ = ["OperationStopping"]


@dataclass(frozen=True)
class OperationStopping(Regularizer):
    """Train an operation until its gradients on training and validation images disagree (OLES, Jiang et al., 2023).

    For each operation o of each edge of each cell, with w_o all of its weights together, g = ∂L1/∂w_o and h = ∂L2/∂w_o,
    each step that moves the architecture and then the weights gives a cosine: cos(g, h) ``against`` "validation", the
    paper's, and cos(g, g + h) against the "sum", which is what the published code measures, because it does not clear g
    before it adds h. The published threshold is that of the sum: against "validation" it stops nearly everything in the
    first epoch (docs/stabilizers.md).

    Whenever ``iterations`` cosines have come, their mean is taken: below ``threshold``, w_o rests from this step on,
    for good, and else the next mean begins. No gradient, weight decay or momentum moves resting weights; gradients
    still pass through the operation, and α goes on. A step at which o has no gradient, such as one that did not draw
    it, does not count.

    ∂L1/∂w is that of the weight step. ∂L2/∂w comes out of the same backward pass as ∂L2/∂α, so a step costs the
    weights' share of that pass more. Resting weights need no gradient any more, and save theirs in both passes.

    The published code takes a cosine over the output channels for each other index of a weight, and their mean; its h
    is of the step after that of g.
    """

    watches: ClassVar[bool] = True

    threshold: Annotated[float, Range(-1, 1)] = 0.4
    iterations: Count = 20
    against: Literal["validation", "sum"] = "sum"

    def init(self, operations: Sequence[str]) -> RegularizerState:
        """Begin the mean of every operation."""
        size = len(operations)
        return {"sum": torch.zeros(size, dtype=torch.float64), "count": torch.zeros(size, dtype=torch.int64)}

    def watch(self, step: WeightStep, state: RegularizerState) -> tuple[RegularizerState, Collection[str]]:
        """Add the cosines of a step; return the operations whose mean is complete and too low."""
        cosines = torch.stack([self._cosine(step, weights) for weights in step.operations.values()]).cpu().double()
        seen = ~cosines.isnan()
        total, count = state["sum"] + cosines.nan_to_num(), state["count"] + seen
        complete = count == self.iterations
        stopped = complete & (total / self.iterations < self.threshold)
        following = {"sum": total.masked_fill(complete, 0.0), "count": count.masked_fill(complete, 0)}
        return following, [name for name, stop in zip(step.operations, stopped.tolist(), strict=True) if stop]

    def _cosine(self, step: WeightStep, names: Sequence[str]) -> Tensor:
        """Return the cosine of an operation, NaN if it rests or has no gradient."""
        if any(name not in step.gradient or name not in step.outer_gradient for name in names):
            return widened(step.value.new_full((), torch.nan))
        first, second = (
            torch.cat([widened(gradient[name]).flatten() for name in names])
            for gradient in (step.gradient, step.outer_gradient)
        )
        second = second if self.against == "validation" else first + second
        cosine: Tensor = first @ second / (first.norm() * second.norm())
        return cosine
