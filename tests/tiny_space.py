"""A space for tests of searches in which the space does not matter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from archgrad.operations import AveragePool, Identity, ReLUConvBN, Vocabulary
from archgrad.spaces.staged import StagedSpace

__all__ = ["Tiny"]


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
