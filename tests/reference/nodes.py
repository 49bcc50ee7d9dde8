"""Plain supernets of spaces whose operations sit on nodes."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from archgrad.spaces.nasbench1shot1 import NASBench1Shot1
from archgrad.spaces.notation.node_form import BLOCKS
from archgrad.supernet import SupernetOptions
from reference.layers import ReLUConvBN, conv, norm, operation, shuffled, times

__all__ = ["NodeCell", "OneShotNet"]


class _ConvBNReLU(nn.Module):
    def __init__(self, inputs: int, outputs: int, size: int) -> None:
        super().__init__()
        self.conv, self.norm = conv(inputs, outputs, size), norm(outputs)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.norm(self.conv(x)))


def _choice(name: str, channels: int) -> nn.Module:
    if name == "maxpool3x3":
        return operation("max_pool_3x3", channels, 1, 0, False)
    return _ConvBNReLU(channels, channels, {"conv3x3-bn-relu": 3, "conv1x1-bn-relu": 1}[name])


class NodeCell(nn.Module):
    """xⱼ = shuffle(Σ p·o(y₁) ‖ y₂) + shuffle(skip·y₁ ‖ 0) with y = Σ a·xᵢ, and then b₀·x₀ + (b₁·x₁ ‖ b₂·x₂ ‖ …)."""

    def __init__(self, space: NASBench1Shot1, options: SupernetOptions, inputs: int, width: int) -> None:
        super().__init__()
        operations, inner, output = space.blocks
        self.partial, self.skip = options.partial, 0.0
        self.count = len(operations.rows)
        self.edges = nn.ModuleList(
            nn.ModuleList(_choice(name, width // options.partial) for name in row.choices) for row in operations.rows
        )
        skips = [nn.Identity() for _ in operations.rows] if options.auxiliary_skip else []
        self.skips = nn.ModuleList(skips)
        widths = [width] * self.count + [width * self.count]
        self.projections = nn.ModuleList(_ConvBNReLU(inputs, own, 1) for own in widths)
        self.inputs = {row.target: (index, row.choices) for index, row in enumerate(inner.rows)}
        self.outputs = output.rows[0].choices

    def forward(self, x: Tensor, operations: Tensor, inputs: Tensor, output: Tensor) -> Tensor:
        """Return the cell's output, given the weights of its operations, inputs and outputs."""
        nodes: list[Tensor] = []
        for node in range(1, self.count + 1):
            before = [self.projections[node - 1](x), *nodes]
            if node in self.inputs:
                row, choices = self.inputs[node]
                before = [times(inputs[..., row, place], before[int(name)]) for place, name in enumerate(choices)]
            nodes.append(self._operated(node - 1, sum(before[1:], before[0]), operations))
        weights = {int(name): output[..., 0, place] for place, name in enumerate(self.outputs)}
        none = torch.zeros((), dtype=x.dtype)
        joined = torch.cat([times(weights.get(node, none), nodes[node - 1]) for node in range(1, self.count + 1)], 1)
        return joined + times(weights.get(0, none), self.projections[-1](x))

    def _operated(self, row: int, y: Tensor, weights: Tensor) -> Tensor:
        width = y.shape[1] // self.partial
        first, rest = y[:, :width], y[:, width:]
        choices = self.edges[row].children()
        mixed = torch.stack([times(weights[..., row, at], choice(first)) for at, choice in enumerate(choices)]).sum(0)
        if len(self.skips):
            mixed = mixed + self.skip * first
        return shuffled(torch.cat([mixed, rest], 1), self.partial)


class OneShotNet(nn.Module):
    """The net of :class:`~archgrad.spaces.nasbench1shot1.OneShotNet`, written out."""

    def __init__(self, space: NASBench1Shot1, options: SupernetOptions, num_classes: int, input_channels: int) -> None:
        super().__init__()
        width = inputs = space.channels
        self.stem = nn.Sequential(conv(input_channels, width, 3), norm(width, affine=True), nn.ReLU())
        self.halving = (space.cells // 3, 2 * space.cells // 3)
        self.cells = nn.ModuleList()
        for layer in range(space.cells):
            width *= 2 if layer in self.halving else 1
            self.cells.append(NodeCell(space, options, inputs, width))
            inputs = width * (len(space.parents) - 1)
        self.postprocess = ReLUConvBN(inputs, width, 1)
        self.classifier = nn.Linear(width, num_classes)

    def forward(self, x: Tensor, mixture: Mapping[str, Tensor], seed: int, auxiliary: bool) -> Tensor:
        """Return logits."""
        x = self.stem(x)
        for layer, cell in enumerate(self.cells):
            x = F.max_pool2d(x, 2, 2, ceil_mode=True) if layer in self.halving else x
            x = cell(x, *(mixture[name][layer] for name in BLOCKS))
        output: Tensor = self.classifier(self.postprocess(x).mean((2, 3)))
        return output
