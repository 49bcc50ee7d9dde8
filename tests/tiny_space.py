"""A space and data for tests of searches in which these do not matter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from archgrad.data import Augmentation, ImageData
from archgrad.operations import AveragePool, Identity, ReLUConvBN, Vocabulary
from archgrad.spaces.staged import StagedSpace

__all__ = ["Tiny", "noise"]


@dataclass(frozen=True, kw_only=True)
class Tiny(StagedSpace):
    """Three edges with three operations: a step takes a third of that in NAS-Bench-201."""

    name: ClassVar[str] = "tiny"
    nodes: ClassVar[int] = 3
    operations: ClassVar[Vocabulary] = {
        "skip_connect": lambda site: Identity(),
        "conv": lambda site: ReLUConvBN(site.channels, site, 3),
        "pool": AveragePool,
    }


def noise(count: int = 32) -> ImageData:
    """Return images of 6×6 random pixels, in four classes."""
    images = torch.randint(256, (count, 1, 6, 6), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    return ImageData("noise", images, torch.arange(count) % 4, tuple("abcd"), Augmentation(1, True))
