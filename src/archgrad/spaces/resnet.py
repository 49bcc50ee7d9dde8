"""The residual networks of He et al. (2016) for small images: the baseline that an architecture has to beat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from archgrad.spaces.block import DecisionBlock, Row
from archgrad.spaces.build import CellPlan
from archgrad.spaces.genotype import CellGenotype, Decision, Genotype
from archgrad.spaces.space import Depth, SearchSpace
from archgrad.training.weight_training import WeightTraining

__all__ = ["RESNET", "ResNet"]

RESNET = Genotype.of({"residual": CellGenotype((Decision(1, 0, "residual_block"),))})
"""The only genotype of :class:`ResNet`."""


@dataclass(frozen=True, kw_only=True)
class ResNet(SearchSpace):
    """Networks of 6n + 2 layers: 3 stages of n blocks with C, 2C and 4C channels (He et al., 2016, section 4.2).

    ResNet-20 has n = 3 and C = 16. There is nothing to search.

    >>> ResNet().cost(RESNET).parameters
    269722
    """

    name: ClassVar[str] = "resnet"
    not_searched: ClassVar[str] = "has one architecture, so there is nothing to search; train it"
    depth_knob: ClassVar[str] = "cells_per_stage"

    cells_per_stage: Depth = 3

    @property
    def blocks(self) -> tuple[DecisionBlock, ...]:
        """One row with one choice."""
        return (DecisionBlock("residual", 3 * self.cells_per_stage, (Row(1, 0, ("residual_block",)),)),)

    @property
    def weights(self) -> WeightTraining:
        """The settings of the paper: 64,000 steps of 128 images, here as 164 epochs of CIFAR-10."""
        return WeightTraining(lr=0.1, lr_min=0.0, weight_decay=1e-4, batch_size=128, epochs=164)

    def build(self, plan: CellPlan, input_channels: int, num_classes: int) -> nn.Module:
        """Build the network."""
        return ResidualNet(self.channels, self.cells_per_stage, input_channels, num_classes)


class ResidualBlock(nn.Module):
    """ReLU(x + BN(conv(ReLU(BN(conv(x)))))), with 3×3 convolutions.

    Where it halves the image and doubles the channels, the shortcut takes every second pixel and adds channels of zeros
    (option A of the paper), so that it has no weights.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.stride = 1 if inputs == outputs else 2
        self.first = nn.Conv2d(inputs, outputs, 3, self.stride, 1, bias=False)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(outputs) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        """Map ``[N, inputs, H, W]`` to ``[N, outputs, H', W']``."""
        y = self.norms[1](self.second(F.relu(self.norms[0](self.first(x)))))
        if self.stride == 2:
            x = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, 0, y.shape[1] - x.shape[1]))
        return F.relu(x + y)


class ResidualNet(nn.Module):
    """A 3×3 convolution, three stages of blocks, the average over all pixels, and a linear classifier."""

    def __init__(self, channels: int, depth: int, input_channels: int, num_classes: int) -> None:
        super().__init__()
        widths = [channels] * depth + [2 * channels] * depth + [4 * channels] * depth
        self.stem = nn.Sequential(
            nn.Conv2d(input_channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU()
        )
        pairs = zip([channels, *widths], widths, strict=False)
        self.body = nn.Sequential(*(ResidualBlock(before, width) for before, width in pairs))
        self.classifier = nn.Linear(4 * channels, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out")

    def forward(self, x: Tensor) -> Tensor:
        """Return logits ``[N, classes]``."""
        logits: Tensor = self.classifier(self.body(self.stem(x)).mean((2, 3)))
        return logits
