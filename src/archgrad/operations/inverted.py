"""The operations of mobile networks: inverted residuals, and the 1×1 convolution that stands for a skip connection."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from archgrad.distributed.pending_norms import after_norm
from archgrad.operations.base import Operation, Site, Source, Term
from archgrad.operations.kernels import norm_in_node
from archgrad.operations.layers import DepthwiseConv2d, KernelSize
from archgrad.parts.fields import Count, checked
from archgrad.system.torch_compat import every_pixel

__all__ = ["InvertedResidual", "Projection"]


class InvertedResidual(Operation):
    """1×1 convolution to ``expansion`` times the channels, depthwise convolution, 1×1 convolution (MobileNetV2).

    Each has a batch norm, the first two also a ReLU (Sandler et al., 2018, with ReLU6 there). With ``expansion`` 1
    there is no first one. Where it keeps width and resolution the cell adds its input, and drop-path drops all but
    that. Elsewhere it is never dropped, because a chain has no other way.
    """

    @checked
    def __init__(self, inputs: Count, site: Site, size: KernelSize, expansion: Count) -> None:
        super().__init__()
        hidden = inputs * expansion
        self.residual = self.droppable = site.stride == 1 and inputs == site.channels
        self.expand = nn.Conv2d(inputs, hidden, 1, bias=False) if expansion > 1 else None
        self.depthwise = DepthwiseConv2d(hidden, size, site.stride)
        self.project = nn.Conv2d(hidden, site.channels, 1, bias=False)
        self.first, self.second, self.norm = site.norm(hidden), site.norm(hidden), site.norm()
        if self.expand is None:
            del self.first

    def forward(self, x: Tensor) -> Tensor:
        """Return the branch without the input that a cell adds."""
        expanded = x if self.expand is None else F.relu(self.first(self.expand(x)))
        output: Tensor = self.norm(self.project(F.relu(self.second(self.depthwise(expanded)))))
        return output

    def mixed(self, source: Source, weight: Tensor) -> Term:
        """Let all batch norms be norms in a node, and the last one apply the weight."""
        if self.expand is None:
            return self._after_expansion(source.x, weight)
        first = norm_in_node(self.first, self.expand(source.x), None)
        term: Term = after_norm(first, lambda y: self._after_expansion(F.relu(y), weight))
        return term

    def _after_expansion(self, expanded: Tensor, weight: Tensor) -> Term:
        second = norm_in_node(self.second, self.depthwise(expanded), None)
        term: Term = after_norm(second, lambda y: norm_in_node(self.norm, self.project(F.relu(y)), weight))
        return term


class Projection(Operation):
    """A 1×1 convolution and a batch norm: the skip connection where a chain changes width or resolution."""

    droppable = False

    @checked
    def __init__(self, inputs: Count, site: Site) -> None:
        super().__init__()
        self.step = site.stride
        self.conv = nn.Conv2d(inputs, site.channels, 1, bias=False)
        self.norm = site.norm()

    def forward(self, x: Tensor) -> Tensor:
        """Convolve every ``step``-th pixel, and normalize."""
        output: Tensor = self.norm(self.conv(every_pixel(self.step, x)))
        return output

    def mixed(self, source: Source, weight: Tensor) -> Term:
        """Let the batch norm apply the weight."""
        return norm_in_node(self.norm, self.conv(every_pixel(self.step, source.x)), weight)
