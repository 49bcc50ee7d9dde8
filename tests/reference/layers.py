"""The operations of the plain supernets, each a module of its own."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from archgrad.system.random_streams import StreamKey, seed_of

__all__ = ["FactorizedReduce", "Noise", "ReLUConvBN", "conv", "norm", "operation", "shuffled", "times"]


def conv(inputs: int, outputs: int, size: int, stride: int = 1, dilation: int = 1, groups: int = 1) -> nn.Conv2d:
    """Return a convolution that keeps the size of an image but for its stride."""
    return nn.Conv2d(inputs, outputs, size, stride, dilation * (size // 2), dilation, groups, bias=False)


def norm(channels: int, affine: bool = False) -> nn.BatchNorm2d:
    """Return batch norm without running statistics, and without parameters inside cells."""
    return nn.BatchNorm2d(channels, affine=affine, track_running_stats=False)


class ReLUConvBN(nn.Module):
    """ReLU, convolution, batch norm."""

    def __init__(self, inputs: int, outputs: int, size: int, stride: int = 1, affine: bool = False) -> None:
        super().__init__()
        self.conv = conv(inputs, outputs, size, stride)
        self.norm = norm(outputs, affine)

    def forward(self, x: Tensor) -> Tensor:
        """Apply all three."""
        output: Tensor = self.norm(self.conv(F.relu(x)))
        return output


class FactorizedReduce(nn.Module):
    """Two 1×1 convolutions of stride 2, one of them shifted by a pixel, side by side."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.even = conv(inputs, outputs // 2, 1, 2)
        self.odd = conv(inputs, outputs - outputs // 2, 1, 2)
        self.norm = norm(outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Halve the resolution."""
        x = F.relu(x)
        shifted = F.pad(x, (0, x.shape[3] % 2, 0, x.shape[2] % 2))[:, :, 1:, 1:]
        output: Tensor = self.norm(torch.cat([self.even(x), self.odd(shifted)], 1))
        return output


class DilatedConv(nn.Module):
    def __init__(self, channels: int, size: int, stride: int, dilation: int) -> None:
        super().__init__()
        self.depthwise = conv(channels, channels, size, stride, dilation, groups=channels)
        self.pointwise = conv(channels, channels, 1)
        self.norm = norm(channels)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.norm(self.pointwise(self.depthwise(F.relu(x))))
        return output


class SeparableConv(DilatedConv):
    def __init__(self, channels: int, size: int, stride: int) -> None:
        super().__init__(channels, size, 1, 1)
        self.first = DilatedConv(channels, size, stride, 1)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(self.first(x))


class Pool(nn.Module):
    def __init__(self, kind: str, channels: int, stride: int, normed: bool) -> None:
        super().__init__()
        self.kind, self.stride = kind, stride
        self.norm = norm(channels) if normed else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        if self.kind == "max":
            pooled = F.max_pool2d(x, 3, self.stride, 1)
        else:
            pooled = F.avg_pool2d(x, 3, self.stride, 1, count_include_pad=False)
        output: Tensor = self.norm(pooled)
        return output


class Identity(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x


class Zero(nn.Module):
    def __init__(self, stride: int) -> None:
        super().__init__()
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        return x[:, :, :: self.stride, :: self.stride].mul(0.0)


class Noise(nn.Module):
    """Draws from the stream that the fused supernet uses, so that both see the same noise."""

    def __init__(self, stride: int, row: int) -> None:
        super().__init__()
        self.stride, self.row = stride, row
        self.stream: StreamKey = (0,)

    def forward(self, x: Tensor) -> Tensor:
        """Draw for images of this size."""
        shape = x[:, :, :: self.stride, :: self.stride].shape
        generator = torch.Generator().manual_seed(seed_of(*self.stream, self.row))
        return torch.randn(shape, generator=generator, dtype=x.dtype)


def operation(name: str, channels: int, stride: int, row: int, normed_pools: bool) -> nn.Module:
    """Return an operation by its name; ``row`` names the random stream of one that draws."""
    makers: dict[str, Callable[[], nn.Module]] = {
        "none": lambda: Zero(stride),
        "skip_connect": lambda: Identity() if stride == 1 else FactorizedReduce(channels, channels),
        "nor_conv_1x1": lambda: ReLUConvBN(channels, channels, 1),
        "nor_conv_3x3": lambda: ReLUConvBN(channels, channels, 3),
        "max_pool_3x3": lambda: Pool("max", channels, stride, normed_pools),
        "avg_pool_3x3": lambda: Pool("average", channels, stride, normed_pools),
        "sep_conv_3x3": lambda: SeparableConv(channels, 3, stride),
        "sep_conv_5x5": lambda: SeparableConv(channels, 5, stride),
        "dil_conv_3x3": lambda: DilatedConv(channels, 3, stride, 2),
        "dil_conv_5x5": lambda: DilatedConv(channels, 5, stride, 2),
        "noise": lambda: Noise(stride, row),
    }
    return makers[name]()


def times(weight: Tensor, x: Tensor) -> Tensor:
    """Multiply by one weight, or each image by its own."""
    return weight.reshape(-1, 1, 1, 1) * x


def shuffled(x: Tensor, groups: int) -> Tensor:
    """Deal the channels of each group out in turn."""
    n, channels, height, width = x.shape
    return x.view(n, groups, channels // groups, height, width).transpose(1, 2).reshape(n, channels, height, width)
