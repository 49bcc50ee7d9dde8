"""What makes a search what it is, in words that a checkpoint keeps."""

from __future__ import annotations

import re

from archgrad.data import ImageData
from archgrad.method import Method
from archgrad.spaces import SearchSpace
from archgrad.supernet import SupernetOptions
from archgrad.training import WeightTraining

__all__ = ["describe"]


def describe(
    space: SearchSpace,
    options: SupernetOptions,
    method: Method,
    data: ImageData,
    training: WeightTraining,
    seed: int,
    split: tuple[float, float] | None,
    held_out: float,
) -> dict[str, str]:
    """Say what makes this search what it is, so that a checkpoint of another one is refused."""
    return {
        "space": _lasting(space),
        "supernet": _lasting(options),
        "method": _lasting(method),
        "training": _lasting(training),
        "data": f"{data.name}, {len(data)} images of {data.num_classes} classes, {data.digest()}",
        "augmentation": _lasting(data.augmentation),
        "split": "none" if split is None else f"{float(split[0])}:{float(split[1])}",
        "held_out": str(float(held_out)),
        "seed": str(seed),
    }


def _lasting(part: object) -> str:
    """Describe an object in words that the next process would use: addresses in memory are none."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(part))
