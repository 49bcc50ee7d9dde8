"""Chains as of MobileNetV2 (Sandler et al., 2018) and ProxylessNAS (Cai et al., 2019), and MobileNetV2 itself."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from torch import nn

from archgrad.operations import InvertedResidual, Site
from archgrad.spaces.block import DecisionBlock, Row
from archgrad.spaces.build import CellPlan
from archgrad.spaces.chain import CHAIN, Chain, Layer, Stage, inverted_residuals, layers_in
from archgrad.spaces.genotype import CellGenotype, Decision, Genotype
from archgrad.spaces.space import Depth

__all__ = ["MOBILENET", "Mobile", "MobileNet"]

_KIND = "mb6_3x3"
MOBILENET = Genotype.of({"inverted": CellGenotype((Decision(1, 0, _KIND),))})
"""The only genotype of :class:`MobileNet`."""


@dataclass(frozen=True, kw_only=True)
class Mobile(Chain):
    """The six stages of MobileNetV2 after its first block, with expansions 3 and 6 and kernels of 3, 5 and 7 pixels.

    The layers have 0.75C, C, 2C, 3C, 5C and 10C channels, 2, 3, 4, 3, 3 and 1 of them at the default depth. All but the
    first of a stage may be a skip connection. With the ``stem`` "imagenet", for 96 to 224 pixels, strides divide the
    resolution by 32. With "cifar", for about 32 pixels, the stem and the first stage have stride 1, so it is by 8.

    >>> [len(row.choices) for row in Mobile(cells=6).blocks[0].rows]
    [6, 6, 6, 6, 6, 6]
    """

    name: ClassVar[str] = "mobile"
    stages: ClassVar[tuple[Stage, ...]] = (
        Stage(2, 0.75, 2), Stage(3, 1, 2), Stage(4, 2, 2), Stage(3, 3, 1), Stage(3, 5, 2), Stage(1, 10, 1),
    )  # fmt: skip
    kinds: ClassVar[dict[str, tuple[int, int]]] = inverted_residuals((3, 3), (3, 5), (3, 7), (6, 3), (6, 5), (6, 7))

    cells: Depth = 16

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The places of all layers; for small images the first has stride 1."""
        first, *rest = layers_in(self.stages, self.cells, self._half, self.channels)
        return (first if self.stem == "imagenet" else first._replace(stride=1), *rest)

    @property
    def _half(self) -> int:
        return max(1, self.channels // 2)

    def build_stem(self, inputs: int, site: Site) -> nn.Sequential:
        """Return a 3×3 convolution with batch norm and ReLU, and a block of expansion 1 to C/2 channels."""
        stride = 2 if self.stem == "imagenet" else 1
        convolution = nn.Conv2d(inputs, site.channels, 3, stride, 1, bias=False)
        block = InvertedResidual(site.channels, Site(self._half, 1, site.searching, skeleton=True), 3, 1)
        return nn.Sequential(convolution, site.norm(), nn.ReLU(), block)


@dataclass(frozen=True, kw_only=True)
class MobileNet(Mobile):
    """MobileNetV2: all layers have 3×3 kernels and expansion 6, with ReLU in place of ReLU6; nothing to search.

    Width and depth are free, as in :class:`Mobile`.

    >>> MobileNet(stem="imagenet").cost(MOBILENET, num_classes=1000, image_size=224).parameters
    3504872
    """

    name: ClassVar[str] = "mobilenet"
    not_searched: ClassVar[str] = "has one architecture, so there is nothing to search; train it"
    has_own_depth: ClassVar[bool] = False

    @cached_property
    def blocks(self) -> tuple[DecisionBlock, ...]:
        """One row with one choice."""
        return (DecisionBlock("inverted", self.cells, (Row(1, 0, (_KIND,)),)),)

    def build(self, plan: CellPlan, input_channels: int, num_classes: int) -> nn.Module:
        """Build the network."""
        rows = tuple(Row(number, number - 1, (_KIND,)) for number in range(1, self.cells + 1))
        return super().build(CellPlan({CHAIN: rows}, searching=False), input_channels, num_classes)
