"""Limits on a network, and the widest network that keeps them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from archgrad.errors import UserError
from archgrad.spaces import Cost, Genotype, SearchSpace
from archgrad.spaces.cost import count_parameters, measure_latency
from archgrad.system.amounts import read_amount, read_seconds

__all__ = ["WIDEST", "Limits", "cost_of", "widest_within"]

WIDEST = 10_000


def cost_of(space: SearchSpace, genotype: Genotype, shape: dict[str, Any]) -> Cost:
    """Count a network; ``shape`` has ``num_classes``, ``input_channels`` and ``image_size``."""
    return space.cost(genotype, **shape)


@dataclass(frozen=True)
class Limits:
    """The most parameters, multiply-adds and seconds for one image that a network may take; None: no limit."""

    params: int | None = None
    madds: int | None = None
    latency: float | None = None

    @classmethod
    def of(cls, max_params: object, max_madds: object, max_latency: object) -> Limits:
        """Read limits as people write them: "1M", "50M", "5ms", or numbers; None: no limit."""
        return cls(
            None if max_params is None else read_amount("max_params", _text(max_params)),
            None if max_madds is None else read_amount("max_madds", _text(max_madds)),
            None if max_latency is None else read_seconds("max_latency", _text(max_latency)),
        )

    def exceeded(self, space: SearchSpace, genotype: Genotype, shape: dict[str, Any]) -> str | None:
        """Say which limit the network exceeds, None if it keeps them all."""
        ends = {name: shape[name] for name in ("num_classes", "input_channels")}
        if self.params is not None:
            with torch.device("meta"):
                parameters = count_parameters(space.network(genotype, **ends))
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


def _text(limit: object) -> str:
    """Return a limit as text; a float without an exponent, which amounts do not have."""
    return f"{limit:.12f}" if isinstance(limit, float) else str(limit)


def widest_within(
    limits: Limits, space: SearchSpace, genotype: Genotype, shape: dict[str, Any], most: int | None = None
) -> SearchSpace:
    """Return the space at the largest width whose network keeps the limits; at most ``most``, or its own width.

    ``shape`` has ``num_classes``, ``input_channels`` and ``image_size``.
    """

    def problem(width: int) -> str | None:
        return limits.exceeded(replace(space, channels=width), genotype, shape)

    if not limits:
        return space
    width = _largest(lambda width: problem(width) is None, space.channels, most or space.channels)
    if not width:
        raise UserError(
            f"no width keeps the limits: with 1 channel the network takes {problem(1)}; give higher limits, fewer "
            f"cells or smaller images."
        )
    return replace(space, channels=width)


def _largest(fits: Callable[[int], bool], start: int, most: int) -> int:
    """Return the largest number up to ``most`` that fits, 0 if none does; smaller ones fit too.

    It doubles or halves ``start`` until both sides are known, and then halves what is between.
    """
    low, high, guess = 0, most + 1, start
    while low < guess < high:
        low, high = (guess, high) if fits(guess) else (low, guess)
        guess = 2 * low if low else high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
