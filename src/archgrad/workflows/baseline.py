"""A residual network of equal size, trained for the same time: what a found architecture has to beat."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from archgrad.spaces import RESNET, Cost, ResNet
from archgrad.workflows.limits import Limits, cost_of, widest_within

__all__ = ["Comparison", "compare", "equal_resnet"]

_WIDEST = 512


def equal_resnet(cost: Cost, shape: dict[str, Any]) -> ResNet:
    """Return ResNet-20 at the largest width that has at most as many parameters, or one channel."""
    least = cost_of(ResNet(channels=1), RESNET, shape).parameters
    space = widest_within(Limits(params=max(cost.parameters, least)), ResNet(channels=_WIDEST), RESNET, shape)
    assert isinstance(space, ResNet)  # noqa: S101 - for the type checker
    return space


@dataclass(frozen=True)
class Comparison:
    """Two classifiers on the same images: their accuracies, and how likely such a difference is by chance.

    ``p_value`` is that of McNemar's exact test, which counts the images that only one of them gets right.
    """

    accuracy: float
    baseline: float
    p_value: float

    def __str__(self) -> str:
        both = f"{self.accuracy:.2f} % against {self.baseline:.2f} % of ResNet-20 of equal size and training time"
        if self.p_value < 0.05:
            return f"{both}: it is {'better' if self.accuracy > self.baseline else 'WORSE'} (p = {self.p_value:.2g})"
        return f"{both}: no clear difference (p = {self.p_value:.2g})"


def compare(outputs: Tensor, others: Tensor, targets: Tensor) -> Comparison:
    """Compare the outputs [N, K] of two classifiers."""
    right, other = (one.argmax(1) == targets for one in (outputs, others))
    ours, theirs = int((right & ~other).sum()), int((other & ~right).sum())
    accuracy, baseline = (100 * float(one.float().mean()) for one in (right, other))
    return Comparison(accuracy, baseline, _exact(ours, theirs))


def _exact(first: int, second: int) -> float:
    """Return the two-sided probability of such a split of coin tosses, or a less even one.

    >>> _exact(5, 5), round(_exact(0, 6), 3)
    (1.0, 0.031)
    """
    tosses, fewer = first + second, min(first, second)
    logs = (math.lgamma(tosses + 1) - math.lgamma(k + 1) - math.lgamma(tosses - k + 1) for k in range(fewer + 1))
    return min(2 * sum(math.exp(one - tosses * math.log(2)) for one in logs), 1.0)
