"""A residual network of equal size, trained for the same time: what a found architecture has to beat."""

from __future__ import annotations

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
    from scipy.stats import binomtest

    right, other = (one.argmax(1) == targets for one in (outputs, others))
    ours, theirs = int((right & ~other).sum()), int((other & ~right).sum())
    accuracy, baseline = (100 * float(one.float().mean()) for one in (right, other))
    return Comparison(accuracy, baseline, float(binomtest(ours, ours + theirs).pvalue) if ours + theirs else 1.0)
