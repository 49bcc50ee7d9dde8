"""Spaces of one cell repeated in three stages, as in NAS-Bench-201: the easiest base for a custom space."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from archgrad.operations import ReLUConvBN, Site, Vocabulary
from archgrad.spaces.block import DecisionBlock, edge_rows
from archgrad.spaces.build import CellPlan, CellViews, build_edges
from archgrad.spaces.skeleton import StemName, single_stem
from archgrad.spaces.space import Depth, SearchSpace
from archgrad.supernet import FixedCell, MixedCell
from archgrad.training.weight_training import WeightTraining

__all__ = ["ReductionBlock", "StagedNet", "StagedSpace"]

_STAGES = 3


@dataclass(frozen=True, kw_only=True)
class StagedSpace(SearchSpace):
    """Cells of ``nodes`` nodes, each the sum of one operation per earlier node; the last one is the cell's output.

    Three stages of ``cells_per_stage`` cells at C, 2C and 4C channels with residual blocks of stride 2 between them.
    The ``stem`` is for images as of CIFAR, or for large ones as of ImageNet: then it divides the resolution by 8.
    A subclass names itself and its ``operations``:

    >>> from archgrad.operations import Identity, ReLUConvBN
    >>> class Tiny(StagedSpace):
    ...     name = "tiny"
    ...     nodes = 3
    ...     operations = {"skip": lambda site: Identity(), "conv": lambda site: ReLUConvBN(site.channels, site, 3)}
    >>> [row.name for row in Tiny(channels=4, cells_per_stage=1).blocks[0].rows]
    ['1<-0', '2<-0', '2<-1']
    """

    depth_knob: ClassVar[str] = "cells_per_stage"
    operations: ClassVar[Vocabulary]
    nodes: ClassVar[int] = 4

    cells_per_stage: Depth = 5
    stem: StemName = "cifar"

    @property
    def choices(self) -> tuple[str, ...]:
        """The operations that an unrestricted edge offers, in order."""
        return tuple(operation for operation in self.operations if operation not in self.exclude)

    @cached_property
    def blocks(self) -> tuple[DecisionBlock, ...]:
        """One block, ``cell``, with an edge from every node to every later one: 1←0, 2←0, 2←1 and so on."""
        rows = edge_rows(((node, range(node)) for node in range(1, self.nodes)), self.choices)
        return (self.apply_restriction(DecisionBlock("cell", _STAGES * self.cells_per_stage, rows)),)

    @property
    def weights(self) -> WeightTraining:
        """SGD with Nesterov momentum, weight decay 5e-4."""
        return WeightTraining(weight_decay=5e-4, nesterov=True)

    def build(self, plan: CellPlan, input_channels: int, num_classes: int) -> nn.Module:
        """Build the three stages."""

        def cell(channels: int) -> nn.Module:
            edges = build_edges(plan, "cell", self.operations, channels)
            return (MixedCell if plan.searching else FixedCell)(edges, inputs=1, nodes=self.nodes)

        stem = single_stem(self.stem, input_channels, plan.site(self.channels, skeleton=True))
        return StagedNet(stem, cell, self.channels, self.cells_per_stage, num_classes, plan.searching)


class ReductionBlock(nn.Module):
    """Two ReLU-Conv3×3-BN beside average pooling and a 1×1 convolution; halves the resolution."""

    def __init__(self, inputs: int, site: Site) -> None:
        super().__init__()
        self.first = ReLUConvBN(inputs, replace(site, stride=2), 3)
        self.second = ReLUConvBN(site.channels, site, 3)
        self.shortcut = nn.Conv2d(inputs, site.channels, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Map ``[N, inputs, H, W]`` to ``[N, channels, ⌈H/2⌉, ⌈W/2⌉]``."""
        shortcut = self.shortcut(F.avg_pool2d(x, 2, 2, ceil_mode=True, count_include_pad=False))
        output: Tensor = self.second(self.first(x)) + shortcut
        return output


class StagedNet(nn.Module):
    """Stem, three stages of single-input cells with residual blocks between them, and a linear classifier."""

    def __init__(
        self,
        stem: nn.Module,
        make_cell: Callable[[int], nn.Module],
        channels: int,
        cells_per_stage: int,
        num_classes: int,
        searching: bool,
    ) -> None:
        super().__init__()
        site = Site(channels, searching=searching, skeleton=True)
        self.stem = stem
        self.layers = nn.ModuleList()
        for stage in range(_STAGES):
            width = channels * 2**stage
            if stage:
                self.layers.append(ReductionBlock(width // 2, replace(site, channels=width)))
            self.layers.extend(make_cell(width) for _ in range(cells_per_stage))
        self.norm = site.norm(width)
        self.classifier = nn.Linear(width, num_classes)

    def forward(self, x: Tensor, mixture: CellViews | None = None) -> Tensor:
        """Return logits ``[N, classes]``."""
        views = iter(mixture["cell"] if mixture is not None else ())
        x = self.stem(x)
        for layer in self.layers:
            if isinstance(layer, MixedCell):
                x = layer([x], next(views))[-1]
            elif isinstance(layer, FixedCell):
                x = layer([x])[-1]
            else:
                x = layer(x)
        logits: Tensor = self.classifier(F.relu(self.norm(x)).mean((2, 3)))
        return logits
