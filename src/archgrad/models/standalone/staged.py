"""The network of one cell repeated in three stages, as in NAS-Bench-201."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from archgrad.models.standalone.layers import Edges, ReLUConvBN, stem_layers

INPUT_CHANNELS, CHANNELS, CLASSES = 3, 4, ["a", "b"]
LARGE_IMAGES = False
CELL: list[tuple[str, int, int]] = []
CELLS_PER_STAGE = 1

__all__ = ["Network"]

# ---


class ResidualBlock(nn.Module):
    """Two ReLU-Conv3×3-BN beside average pooling and a 1×1 convolution; halves the resolution."""

    def __init__(self, inputs: int, channels: int) -> None:
        super().__init__()
        self.first = ReLUConvBN(inputs, channels, 3, stride=2)
        self.second = ReLUConvBN(channels, channels, 3)
        self.shortcut = nn.Conv2d(inputs, channels, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        shortcut = self.shortcut(F.avg_pool2d(x, 2, 2, ceil_mode=True, count_include_pad=False))
        return self.second(self.first(x)) + shortcut


class Network(nn.Module):
    """A stem, three stages of cells with residual blocks between them, and a linear classifier."""

    def __init__(self) -> None:
        super().__init__()
        first, second = stem_layers(INPUT_CHANNELS, CHANNELS, LARGE_IMAGES)
        self.stem = nn.Sequential(*first, *second)
        self.layers = nn.ModuleList()
        for stage in range(3):
            width = CHANNELS * 2**stage
            if stage:
                self.layers.append(ResidualBlock(width // 2, width))
            self.layers.extend(Edges(CELL, 1, width) for _ in range(CELLS_PER_STAGE))
        self.norm = nn.BatchNorm2d(width)
        self.classifier = nn.Linear(width, len(CLASSES))

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for layer in self.layers:
            x = layer([x])[-1] if isinstance(layer, Edges) else layer(x)
        return self.classifier(F.relu(self.norm(x)).mean((2, 3)))
