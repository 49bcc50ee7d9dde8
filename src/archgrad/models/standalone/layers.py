"""The operations of a cell."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

__all__ = ["ConvBNReLU", "Edges", "FactorizedReduce", "ReLUConvBN", "stem_layers"]

# ---


class ReLUConvBN(nn.Module):
    """ReLU, convolution, batch norm."""

    def __init__(self, inputs: int, channels: int, size: int, stride: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, channels, size, stride, size // 2, bias=False)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.conv(F.relu(x)))


class ConvBNReLU(nn.Module):
    """Convolution, batch norm, ReLU."""

    def __init__(self, inputs: int, channels: int, size: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, channels, size, padding=size // 2, bias=False)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.norm(self.conv(x)))


class FactorizedReduce(nn.Module):
    """ReLU, two 1×1 convolutions of stride 2, one of them shifted by a pixel, side by side, batch norm."""

    def __init__(self, inputs: int, channels: int) -> None:
        super().__init__()
        self.even = nn.Conv2d(inputs, channels // 2, 1, stride=2, bias=False)
        self.odd = nn.Conv2d(inputs, channels - channels // 2, 1, stride=2, bias=False)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(x)
        padded = F.pad(x, (0, x.shape[3] % 2, 0, x.shape[2] % 2))
        return self.norm(torch.cat([self.even(x), self.odd(padded[:, :, 1:, 1:])], dim=1))


class DilatedConv(nn.Module):
    """ReLU, depthwise convolution, pointwise convolution, batch norm."""

    def __init__(self, channels: int, size: int, stride: int, dilation: int = 2) -> None:
        super().__init__()
        padding = dilation * (size // 2)
        self.depthwise = nn.Conv2d(
            channels, channels, size, stride, padding, dilation=dilation, groups=channels, bias=False
        )
        self.pointwise = nn.Conv2d(channels, channels, 1, bias=False)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.pointwise(self.depthwise(F.relu(x))))


class SeparableConv(DilatedConv):
    """ReLU, depthwise separable convolution and batch norm, twice; only the first has a stride."""

    def __init__(self, channels: int, size: int, stride: int) -> None:
        super().__init__(channels, size, stride=1, dilation=1)
        self.first = DilatedConv(channels, size, stride, dilation=1)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(self.first(x))


class TallWideConv(nn.Module):
    """ReLU, 1×7 convolution, 7×1 convolution, batch norm."""

    def __init__(self, channels: int, stride: int) -> None:
        super().__init__()
        self.wide = nn.Conv2d(channels, channels, (1, 7), (1, stride), (0, 3), bias=False)
        self.tall = nn.Conv2d(channels, channels, (7, 1), (stride, 1), (3, 0), bias=False)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.tall(self.wide(F.relu(x))))


class Zero(nn.Module):
    """No connection."""

    def __init__(self, stride: int) -> None:
        super().__init__()
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        return torch.zeros_like(x[:, :, :: self.stride, :: self.stride])


def operation(name: str, channels: int, stride: int) -> nn.Module:
    """Return an operation by its name."""
    if name == "none":
        return Zero(stride)
    if name == "skip_connect":
        return nn.Identity() if stride == 1 else FactorizedReduce(channels, channels)
    if name == "max_pool_3x3":
        return nn.MaxPool2d(3, stride, padding=1)
    if name == "avg_pool_3x3":
        return nn.AvgPool2d(3, stride, padding=1, count_include_pad=False)
    if name == "conv_7x1_1x7":
        return TallWideConv(channels, stride)
    kind, size = name.rsplit("_", 1)[0], int(name[-1])
    if kind == "nor_conv":
        return ReLUConvBN(channels, channels, size, stride)
    return (SeparableConv if kind == "sep_conv" else DilatedConv)(channels, size, stride)


def stem_layers(inputs: int, channels: int, large: bool) -> tuple[list[nn.Module], list[nn.Module]]:
    """Return the layers before the cells; for large images they divide the resolution by 8."""
    if not large:
        return [nn.Conv2d(inputs, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels)], []
    half = max(1, channels // 2)
    first = [nn.Conv2d(inputs, half, 3, 2, 1, bias=False), nn.BatchNorm2d(half), nn.ReLU()]
    first += [nn.Conv2d(half, channels, 3, 2, 1, bias=False), nn.BatchNorm2d(channels)]
    return first, [nn.ReLU(), nn.Conv2d(channels, channels, 3, 2, 1, bias=False), nn.BatchNorm2d(channels)]


class Edges(nn.Module):
    """Nodes that each sum some operations of earlier nodes; ``edges`` are (operation, from node, to node)."""

    def __init__(self, edges: list[tuple[str, int, int]], inputs: int, channels: int, reducing: bool = False) -> None:
        super().__init__()
        self.inputs, self.places = inputs, [(source, target) for _, source, target in edges]
        self.edges = nn.ModuleList(
            nn.ModuleList([operation(name, channels, 2 if reducing and source < inputs else 1)])
            for name, source, _ in edges
        )

    def forward(self, inputs: list[Tensor]) -> list[Tensor]:
        nodes = list(inputs)
        for node in range(self.inputs, 1 + max(target for _, target in self.places)):
            entering = [(edge[0], source) for edge, (source, to) in zip(self.edges, self.places) if to == node]
            terms = [apply(nodes[source]) for apply, source in entering]
            nodes.append(sum(terms[1:], terms[0]))
        return nodes
