"""NAS-Bench-201 (Dong & Yang, 2020): one cell of four nodes and six edges, 15,625 architectures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from archgrad.errors import UserError, unknown
from archgrad.operations import AveragePool, Identity, ReLUConvBN, Site, Vocabulary, Zero
from archgrad.spaces.block import DecisionBlock, edges_of
from archgrad.spaces.space import CellPlan, CellViews, SearchSpace, build_edges
from archgrad.supernet import FixedCell, MixedCell
from archgrad.training import WeightTraining

__all__ = ["OPERATIONS", "NASBench201", "ResidualBlock", "StagedNet", "nasbench201"]

OPERATIONS: Vocabulary = {
    "none": Zero,
    "skip_connect": lambda site: Identity(),
    "nor_conv_1x1": lambda site: ReLUConvBN(site.channels, site, 1),
    "nor_conv_3x3": lambda site: ReLUConvBN(site.channels, site, 3),
    "avg_pool_3x3": AveragePool,
}

_NODES = 4
_STAGES = 3


@dataclass(frozen=True, kw_only=True)
class NASBench201(SearchSpace):
    """Cells of four nodes, each the sum of one operation per earlier node; ``exclude`` removes operations.

    Three stages of ``cells_per_stage`` cells at C, 2C and 4C channels with residual blocks of stride 2 between them.
    """

    name: ClassVar[str] = "nasbench201"
    depth_knob: ClassVar[str] = "cells_per_stage"

    cells_per_stage: int = 5
    exclude: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        for operation in self.exclude:
            if operation not in OPERATIONS:
                raise unknown("operation in exclude:", operation, OPERATIONS)
        if not self.choices:
            raise UserError("exclude removes every operation of the space 'nasbench201'; leave at least one.")

    @property
    def choices(self) -> tuple[str, ...]:
        """The operations that remain, in the benchmark's order."""
        return tuple(operation for operation in OPERATIONS if operation not in self.exclude)

    @property
    def blocks(self) -> tuple[DecisionBlock, ...]:
        """One block, ``cell``, with the edges 1←0, 2←0, 2←1, 3←0, 3←1, 3←2."""
        rows = edges_of(((node, range(node)) for node in range(1, _NODES)), self.choices)
        return (DecisionBlock("cell", _STAGES * self.cells_per_stage, rows),)

    @property
    def training(self) -> WeightTraining:
        """SGD with Nesterov momentum, weight decay 5e-4."""
        return WeightTraining(weight_decay=5e-4, nesterov=True)

    def build(self, plan: CellPlan, input_channels: int, num_classes: int) -> nn.Module:
        """Build the three stages."""

        def cell(channels: int) -> nn.Module:
            edges = build_edges(plan, "cell", OPERATIONS, channels)
            return (MixedCell if plan.searching else FixedCell)(edges, inputs=1, nodes=_NODES)

        return StagedNet(cell, self.channels, self.cells_per_stage, input_channels, num_classes, plan.searching)


def nasbench201(
    channels: int = 16,
    cells_per_stage: int = 5,
    *,
    input_channels: int = 3,
    image_size: int = 32,
    num_classes: int = 10,
    exclude: tuple[str, ...] = (),
) -> NASBench201:
    """Return the space of NAS-Bench-201, full size by default.

    >>> nasbench201(channels=8, cells_per_stage=1).blocks[0].shape
    (6, 5)
    """
    return NASBench201(
        channels=channels,
        cells_per_stage=cells_per_stage,
        input_channels=input_channels,
        image_size=image_size,
        num_classes=num_classes,
        exclude=tuple(exclude),
    )


class ResidualBlock(nn.Module):
    """Two ReLU-Conv3×3-BN beside average pooling and a 1×1 convolution; halves the resolution."""

    def __init__(self, inputs: int, site: Site) -> None:
        super().__init__()
        self.first = ReLUConvBN(inputs, Site(site.channels, 2, site.searching), 3)
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
        make_cell: Callable[[int], nn.Module],
        channels: int,
        cells_per_stage: int,
        input_channels: int,
        num_classes: int,
        searching: bool,
    ) -> None:
        super().__init__()
        site = Site(channels, searching=searching)
        self.stem = nn.Sequential(nn.Conv2d(input_channels, channels, 3, padding=1, bias=False), site.norm())
        self.layers = nn.ModuleList()
        for stage in range(_STAGES):
            width = channels * 2**stage
            if stage:
                self.layers.append(ResidualBlock(width // 2, Site(width, searching=searching)))
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
