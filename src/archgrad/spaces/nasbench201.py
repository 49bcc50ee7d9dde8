"""NAS-Bench-201 (Dong & Yang, 2020): one cell of four nodes and six edges, 15,625 architectures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from archgrad.operations import AveragePool, Identity, ReLUConvBN, Vocabulary, Zero
from archgrad.spaces.staged import StagedSpace

__all__ = ["OPERATIONS", "NASBench201"]

OPERATIONS: Vocabulary = {
    "none": Zero,
    "skip_connect": lambda site: Identity(),
    "nor_conv_1x1": lambda site: ReLUConvBN(site.channels, site, 1),
    "nor_conv_3x3": lambda site: ReLUConvBN(site.channels, site, 3),
    "avg_pool_3x3": AveragePool,
}


@dataclass(frozen=True, kw_only=True)
class NASBench201(StagedSpace):
    """The cell of NAS-Bench-201: four nodes, six edges, five operations, 15,625 architectures.

    The edges are 1←0, 2←0, 2←1, 3←0, 3←1, 3←2. The default size is the benchmark's.

    >>> NASBench201(channels=8, cells_per_stage=1).blocks[0].shape
    (6, 5)
    """

    name: ClassVar[str] = "nasbench201"
    family: ClassVar[str] = "nasbench201"
    compared_at: ClassVar[Mapping[str, int]] = {"channels": 16, "cells_per_stage": 5}
    operations: ClassVar[Vocabulary] = OPERATIONS
