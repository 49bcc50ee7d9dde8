"""The operations of the published spaces, for plain networks and supernets."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from archgrad.distributed.pending_norms import after_norm
from archgrad.distributed.shard import drawn_rows
from archgrad.operations.base import Operation, Site, Source, Term, Weighted
from archgrad.operations.kernels import average_pool, depthwise_conv, norm_in_node
from archgrad.parts.fields import Count, Range, checked
from archgrad.system.torch_compat import every_pixel

__all__ = [
    "AveragePool",
    "ConvBNReLU",
    "DepthwiseConv2d",
    "DilatedConv",
    "FactorizedReduce",
    "Identity",
    "MaxPool",
    "Noise",
    "NormedOperation",
    "ReLUConvBN",
    "SeparableConv",
    "Zero",
]

KernelSize = Annotated[int, Range(1, 101)]
"""The height and width of a kernel, an odd number."""


class DepthwiseConv2d(nn.Conv2d):
    """A depthwise convolution whose gradients are computed by :func:`~archgrad.operations.kernels.depthwise_conv`."""

    @checked
    def __init__(self, channels: Count, size: KernelSize, stride: Count = 1, dilation: Count = 1) -> None:
        padding = dilation * (size // 2)
        super().__init__(channels, channels, size, stride, padding, dilation, groups=channels, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Convolve ``x [N, C, H, W]``; without gradients (evaluation, export) use the plain module."""
        if not torch.is_grad_enabled():
            return super().forward(x)
        return depthwise_conv(x, self.weight, self.stride[0], self.dilation[0])


class NormedOperation(Operation):
    """An operation from a ReLU to a batch norm; the batch norm also applies the mixture weight."""

    norm: nn.BatchNorm2d

    @abstractmethod
    def body(self, rectified: Tensor) -> Tensor:
        """Map the rectified input to the input of the batch norm."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalize the body of the rectified input."""
        output: Tensor = self.norm(self.body(F.relu(x)))
        return output

    def mixed(self, source: Source, weight: Tensor) -> Term:
        """Share the ReLU with the other operations on this input."""
        return norm_in_node(self.norm, self.body(source.relu()), weight)


class ReLUConvBN(NormedOperation):
    """ReLU, convolution, batch norm."""

    @checked
    def __init__(self, inputs: Count, site: Site, size: KernelSize) -> None:
        super().__init__()
        self.step = site.stride if size == 1 else 1
        self.conv = nn.Conv2d(inputs, site.channels, size, site.stride // self.step, size // 2, bias=False)
        self.norm = site.norm()

    def body(self, rectified: Tensor) -> Tensor:
        """Convolve."""
        output: Tensor = self.conv(every_pixel(self.step, rectified))
        return output


class ConvBNReLU(Operation):
    """Convolution, batch norm, ReLU: the order of NAS-Bench-101, whose nodes are never negative."""

    @checked
    def __init__(self, inputs: Count, site: Site, size: KernelSize) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, site.channels, size, padding=size // 2, bias=False)
        self.norm = site.norm()

    def forward(self, x: Tensor) -> Tensor:
        """Convolve, normalize, rectify."""
        return F.relu(self.norm(self.conv(x)))


class FactorizedReduce(NormedOperation):
    """Halve the resolution by two 1×1 convolutions, one of them shifted by a pixel, side by side."""

    @checked
    def __init__(self, inputs: Count, site: Site) -> None:
        super().__init__()
        first = site.channels // 2
        self.even = nn.Conv2d(inputs, first, 1, bias=False)
        self.odd = nn.Conv2d(inputs, site.channels - first, 1, bias=False)
        self.norm = site.norm()

    def body(self, rectified: Tensor) -> Tensor:
        """Concatenate both convolutions."""
        height, width = rectified.shape[2:]
        padded = F.pad(rectified, (0, width % 2, 0, height % 2)) if width % 2 or height % 2 else rectified
        return torch.cat([self.even(every_pixel(2, rectified)), self.odd(every_pixel(2, padded[:, :, 1:, 1:]))], dim=1)


class DilatedConv(NormedOperation):
    """ReLU, depthwise convolution with dilation 2, pointwise convolution, batch norm."""

    @checked
    def __init__(self, site: Site, size: KernelSize, dilation: Count = 2) -> None:
        super().__init__()
        self.depthwise = DepthwiseConv2d(site.channels, size, site.stride, dilation)
        self.pointwise = nn.Conv2d(site.channels, site.channels, 1, bias=False)
        self.norm = site.norm()

    def body(self, rectified: Tensor) -> Tensor:
        """Convolve depthwise, then pointwise."""
        output: Tensor = self.pointwise(self.depthwise(rectified))
        return output


class SeparableConv(DilatedConv):
    """ReLU, depthwise separable convolution and batch norm, twice; only the first has a stride."""

    @checked
    def __init__(self, site: Site, size: KernelSize) -> None:
        super().__init__(replace(site, stride=1), size, dilation=1)
        self.first = DilatedConv(site, size, dilation=1)

    def body(self, rectified: Tensor) -> Tensor:
        """Apply all but the last batch norm."""
        return self._second(self.first.norm(self.first.body(rectified)))

    def mixed(self, source: Source, weight: Tensor) -> Term:
        """Let both batch norms be norms in a node."""
        first = norm_in_node(self.first.norm, self.first.body(source.relu()), None)
        term: Term = after_norm(first, lambda y: norm_in_node(self.norm, self._second(y), weight))
        return term

    def _second(self, normed: Tensor) -> Tensor:
        return super().body(F.relu(normed))


class _Pool(Operation):
    """3×3 pooling, followed by a batch norm without affine parameters if ``normed``.

    All edges that leave a node share its normalized pool, so it is computed once.
    """

    kind: str

    @checked
    def __init__(self, site: Site, normed: bool = False) -> None:
        super().__init__()
        self.stride = site.stride
        self.norm = nn.BatchNorm2d(site.channels, affine=False, track_running_stats=False) if normed else None

    @abstractmethod
    def pool(self, x: Tensor) -> Tensor:
        """Pool ``x`` with a window of 3×3."""

    def forward(self, x: Tensor) -> Tensor:
        """Pool, and normalize if ``normed``."""
        pooled = self.pool(x)
        return pooled if self.norm is None else self.norm(pooled)

    def mixed(self, source: Source, weight: Tensor) -> Weighted:
        """Scale the pool that all edges from this source share."""
        name = f"{self.kind}/{self.stride}/{self.norm is not None}"
        return Weighted(source.share(name, self), weight)


class AveragePool(_Pool):
    """3×3 average pooling that does not count the padding."""

    kind = "average"

    def pool(self, x: Tensor) -> Tensor:
        """Average the windows."""
        if not torch.is_grad_enabled():
            return F.avg_pool2d(x, 3, self.stride, 1, count_include_pad=False)
        return average_pool(x, self.stride)


class MaxPool(_Pool):
    """3×3 max pooling."""

    kind = "max"

    def pool(self, x: Tensor) -> Tensor:
        """Take the maximum of the windows."""
        return F.max_pool2d(x, 3, self.stride, 1)


class Identity(Operation):
    """The skip connection at stride 1; drop-path never drops it, as in DARTS."""

    droppable = False

    def forward(self, x: Tensor) -> Tensor:
        """Return ``x``."""
        return x


class Zero(Operation):
    """No connection."""

    @checked
    def __init__(self, site: Site) -> None:
        super().__init__()
        self.stride = site.stride

    def forward(self, x: Tensor) -> Tensor:
        """Return zeros of the output's size."""
        return torch.zeros_like(x[:, :, :: self.stride, :: self.stride])

    def mixed(self, source: Source, weight: Tensor) -> None:
        """Contribute nothing, at no cost."""
        return


class Noise(Operation):
    """Standard normal noise that ignores its input (space S4): a useless operation that a search must avoid."""

    @checked
    def __init__(self, site: Site) -> None:
        super().__init__()
        self.stride, self.salt = site.stride, site.salt

    def forward(self, x: Tensor) -> Tensor:
        """Draw from the global random state, as dropout does."""
        return torch.randn_like(x[:, :, :: self.stride, :: self.stride])

    def mixed(self, source: Source, weight: Tensor) -> Weighted:
        """Draw from the stream of this call: the supernet stays a function of its seed."""
        like = source.x[:, :, :: self.stride, :: self.stride]
        generator = source.generator(self.salt)

        def draw(images: int) -> Tensor:
            return torch.randn(images, *like.shape[1:], generator=generator, dtype=like.dtype, device=like.device)

        return Weighted(drawn_rows(len(like), draw).to(memory_format=torch.channels_last), weight)
