"""Stop the training of operations that only learn their training images: OLES."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from torch import Tensor

from archgrad.parts.fields import Count, Range
from archgrad.regularizers.base import Regularizer, RegularizerState, WeightStep
from archgrad.system.devices import widened

__all__ = ["OperationStopping"]


@dataclass(frozen=True)
class OperationStopping(Regularizer):
    """Train an operation until its gradients on training and validation images disagree (OLES, Jiang et al., 2023).

    For each operation o of each edge of each cell, c_o = cos(∂L1/∂w_o, ∂L2/∂w_o) at each step that moves the
    architecture and then the weights; w_o are all of its weights together. Whenever ``iterations`` of them have come,
    their mean is taken: below ``threshold``, w_o rests from this step on, for good, and else the next mean begins. No
    gradient, weight decay or momentum moves resting weights; gradients still pass through the operation, and α goes on.
    A step at which o has no gradient, such as one that did not draw it, does not count.

    ∂L1/∂w is that of the weight step. ∂L2/∂w comes out of the same backward pass as ∂L2/∂α, so a step costs the
    weights' share of that pass more. Resting weights need no gradient any more, and save theirs in both passes.

    The published code takes cosines over the output channels of each weight, and their mean; and its validation
    gradient is one step later than its training gradient.
    """

    watches: ClassVar[bool] = True

    threshold: Annotated[float, Range(-1, 1)] = 0.4
    iterations: Count = 20

    def init(self, operations: Sequence[str]) -> RegularizerState:
        """Begin the mean of every operation."""
        size = len(operations)
        return {"sum": torch.zeros(size, dtype=torch.float64), "count": torch.zeros(size, dtype=torch.int64)}

    def watch(self, step: WeightStep, state: RegularizerState) -> tuple[RegularizerState, Collection[str]]:
        """Add the cosines of a step; return the operations whose mean is complete and too low."""
        cosines = torch.stack([_cosine(step, weights) for weights in step.operations.values()]).cpu().double()
        seen = ~cosines.isnan()
        total, count = state["sum"] + cosines.nan_to_num(), state["count"] + seen
        complete = count == self.iterations
        stopped = complete & (total / self.iterations < self.threshold)
        following = {"sum": total.masked_fill(complete, 0.0), "count": count.masked_fill(complete, 0)}
        return following, [name for name, stop in zip(step.operations, stopped.tolist(), strict=True) if stop]


def _cosine(step: WeightStep, names: Sequence[str]) -> Tensor:
    """Return the cosine of the two gradients of an operation, NaN if it rests or one of them is zero."""
    if any(name not in step.gradient or name not in step.outer_gradient for name in names):
        return widened(step.value.new_full((), torch.nan))
    first, second = (
        torch.cat([widened(gradient[name]).flatten() for name in names])
        for gradient in (step.gradient, step.outer_gradient)
    )
    cosine: Tensor = first @ second / (first.norm() * second.norm())
    return cosine
