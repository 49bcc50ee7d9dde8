"""Limits on a network, and the widest network that keeps them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from archgrad.errors import UserError
from archgrad.spaces import Genotype, SearchSpace
from archgrad.spaces.latency import measure_latency

__all__ = ["Limits", "widest_within"]


@dataclass(frozen=True)
class Limits:
    """The most parameters, multiply-adds and seconds for one image that a network may take; None: no limit."""

    params: int | None = None
    madds: int | None = None
    latency: float | None = None

    def exceeded(self, space: SearchSpace, genotype: Genotype, shape: dict[str, Any]) -> str | None:
        """Say which limit the network exceeds, None if it keeps them all.

        ``shape`` has ``num_classes``, ``input_channels`` and ``image_size``.
        """
        with torch.device("meta"):
            cost = space.cost(genotype, **shape)
        if self.params is not None and cost.parameters > self.params:
            return f"{cost.parameters:,} parameters, more than {self.params:,}"
        if self.madds is not None and cost.multiply_adds > self.madds:
            return f"{cost.multiply_adds:,} multiply-adds, more than {self.madds:,}"
        if self.latency is not None:
            size = shape["image_size"]
            network = space.network(genotype, **{name: one for name, one in shape.items() if name != "image_size"})
            taken = measure_latency(network, shape["input_channels"], size)
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
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
