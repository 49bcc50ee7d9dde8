"""The reduced spaces S1-S4 (Zela et al., 2020): DARTS cells with few, carefully chosen operations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from archgrad.spaces.block import Row
from archgrad.spaces.darts import DARTS, darts_edges

__all__ = ["S1", "S2", "S3", "S4"]

_SHORT = {
    "none": "none",
    "max": "max_pool_3x3",
    "avg": "avg_pool_3x3",
    "skip": "skip_connect",
    "sep3": "sep_conv_3x3",
    "dil3": "dil_conv_3x3",
    "dil5": "dil_conv_5x5",
    "noise": "noise",
}
_S1_NORMAL = (
    "skip,dil3 skip,dil5 skip,dil5 skip,sep3 skip,dil3 max,skip skip,sep3 "
    "skip,sep3 skip,dil3 skip,sep3 max,skip skip,dil3 dil3,dil5 dil3,dil5"
)
_S1_REDUCE = (
    "max,avg max,dil3 max,avg max,avg skip,dil5 max,avg max,sep3 "
    "skip,dil3 skip,dil5 max,avg max,avg skip,dil5 skip,dil5 skip,dil5"
)


def _choices(names: str) -> tuple[str, ...]:
    return tuple(_SHORT[name] for name in names.split(","))


def _per_edge(names: str) -> tuple[Row, ...]:
    edges = darts_edges(("",))
    return tuple(Row(edge.target, edge.source, _choices(pair)) for edge, pair in zip(edges, names.split(), strict=True))


@dataclass(frozen=True, kw_only=True)
class S1(DARTS):
    """Two operations per edge, the most important ones in a search on the full space."""

    name: ClassVar[str] = "s1"

    @property
    def normal_rows(self) -> tuple[Row, ...]:
        """Each edge has its own pair."""
        return _per_edge(_S1_NORMAL)

    @property
    def reduce_rows(self) -> tuple[Row, ...]:
        """Each edge has its own pair."""
        return _per_edge(_S1_REDUCE)


@dataclass(frozen=True, kw_only=True)
class S2(DARTS):
    """Skip connection or 3×3 separable convolution on every edge.

    >>> S2().blocks[0].rows[0].choices
    ('skip_connect', 'sep_conv_3x3')
    """

    name: ClassVar[str] = "s2"
    operations: ClassVar[str] = "skip,sep3"

    @property
    def normal_rows(self) -> tuple[Row, ...]:
        """Every edge has the same operations."""
        return darts_edges(_choices(self.operations))


@dataclass(frozen=True, kw_only=True)
class S3(S2):
    """None, skip connection or 3×3 separable convolution on every edge."""

    name: ClassVar[str] = "s3"
    operations: ClassVar[str] = "none,skip,sep3"


@dataclass(frozen=True, kw_only=True)
class S4(S2):
    """Noise N(0, 1) or 3×3 separable convolution on every edge: the convolution is always better."""

    name: ClassVar[str] = "s4"
    operations: ClassVar[str] = "noise,sep3"
