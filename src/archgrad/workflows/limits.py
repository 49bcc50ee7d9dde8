"""Limits on a network, the widest network that keeps them, and a residual network of equal size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from archgrad.errors import UserError
from archgrad.spaces import RESNET, Cost, Genotype, ResNet, SearchSpace
from archgrad.spaces.latency import measure_latency
from archgrad.system.amounts import read_amount, read_seconds

__all__ = ["Limits", "cost_of", "equal_resnet", "widest_within"]

_WIDEST = 512


def cost_of(space: SearchSpace, genotype: Genotype, shape: dict[str, Any]) -> Cost:
    """Count the parameters and multiply-adds of a network, without the memory for its weights.

    ``shape`` has ``num_classes``, ``input_channels`` and ``image_size``.
    """
    with torch.device("meta"):
        return space.cost(genotype, **shape)


@dataclass(frozen=True)
class Limits:
    """The most parameters, multiply-adds and seconds for one image that a network may take; None: no limit."""

    params: int | None = None
    madds: int | None = None
    latency: float | None = None

    @classmethod
    def of(cls, max_params: object, max_madds: object, max_latency: object) -> Limits:
        """Read limits as people write them: "1M", "50M", "5ms"; None: no limit."""
        return cls(
            None if max_params is None else read_amount("max_params", str(max_params)),
            None if max_madds is None else read_amount("max_madds", str(max_madds)),
            None if max_latency is None else read_seconds("max_latency", str(max_latency)),
        )

    def exceeded(self, space: SearchSpace, genotype: Genotype, shape: dict[str, Any]) -> str | None:
        """Say which limit the network exceeds, None if it keeps them all."""
        ends = {name: shape[name] for name in ("num_classes", "input_channels")}
        if self.params is not None:
            with torch.device("meta"):
                parameters = sum(one.numel() for one in space.network(genotype, **ends).parameters())
            if parameters > self.params:
                return f"{parameters:,} parameters, more than {self.params:,}"
        if self.madds is not None:
            madds = cost_of(space, genotype, shape).multiply_adds
            if madds > self.madds:
                return f"{madds:,} multiply-adds, more than {self.madds:,}"
        if self.latency is not None:
            taken = measure_latency(space.network(genotype, **ends), shape["input_channels"], shape["image_size"])
            if taken > self.latency:
                return f"{1000 * taken:.3g} ms for one image, more than {1000 * self.latency:.3g}"
        return None

    def __bool__(self) -> bool:
        return any(one is not None for one in (self.params, self.madds, self.latency))


def widest_within(limits: Limits, space: SearchSpace, genotype: Genotype, shape: dict[str, Any]) -> SearchSpace:
    """Return the space at the largest width, up to its own, whose network keeps the limits."""

    def problem(width: int) -> str | None:
        return limits.exceeded(replace(space, channels=width), genotype, shape)

    if not limits or problem(space.channels) is None:
        return space
    low = _largest(lambda width: problem(width) is None, space.channels)
    if not low:
        raise UserError(
            f"no width keeps the limits: with 1 channel the network takes {problem(1)}; give higher limits or smaller "
            f"images."
        )
    return replace(space, channels=low)


def _largest(fits: Callable[[int], bool], most: int) -> int:
    """Return the largest number below ``most`` that fits, 0 if none does; smaller ones fit too."""
    low, high = 0, 1
    while high < most and fits(high):
        low, high = high, 2 * high
    high = min(high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def equal_resnet(cost: Cost, shape: dict[str, Any]) -> ResNet:
    """Return ResNet-20 at the largest width that has at most as many parameters, or one channel."""
    least = cost_of(ResNet(channels=1), RESNET, shape).parameters
    limits = Limits(params=max(cost.parameters, least))
    return ResNet(channels=widest_within(limits, ResNet(channels=_WIDEST), RESNET, shape).channels)
