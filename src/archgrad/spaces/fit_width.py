"""The widest network within a limit of multiply-adds."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated

import torch

from archgrad.errors import UserError
from archgrad.parts.fields import Range, checked
from archgrad.spaces.cost import ImageSize
from archgrad.spaces.genotype import Genotype
from archgrad.spaces.space import SearchSpace, Width

__all__ = ["fit_width"]

_WIDEST = 10_000


@checked
def fit_width(
    space: SearchSpace,
    genotype: Genotype,
    multiply_adds: Annotated[int, Range(1, 10**18)],
    *,
    num_classes: Width = 10,
    input_channels: Width = 3,
    image_size: ImageSize = 32,
) -> SearchSpace:
    """Return the space at the largest width whose network of this genotype takes at most so many multiply-adds.

    Multiply-adds grow about as the square of the width. So the first guess is near, and a few more settle it.
    """

    def fits(channels: int) -> bool:
        return spent(channels) <= multiply_adds

    def spent(channels: int) -> int:
        with torch.device("meta"):  # only counted, never computed
            return replace(space, channels=channels).cost(
                genotype, num_classes=num_classes, input_channels=input_channels, image_size=image_size
            ).multiply_adds  # fmt: skip

    if not fits(1):
        raise UserError(
            f"no width meets the limit of {multiply_adds:,} multiply-adds: one channel takes {spent(1):,}; give a "
            f"higher limit, fewer cells or smaller images."
        )
    guess = min(max(1, math.isqrt(space.channels**2 * multiply_adds // max(spent(space.channels), 1))), _WIDEST)
    low, high = (guess, min(guess + 2, _WIDEST + 1)) if fits(guess) else (1, guess)
    while high <= _WIDEST and low == guess and fits(high):
        low, guess, high = high, high, min(2 * high, _WIDEST + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return replace(space, channels=low)
